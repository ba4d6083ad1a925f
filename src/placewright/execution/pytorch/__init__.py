"""Plans of PyTorch modules: captured as calls, written as code for each device, run, measured and compared."""
