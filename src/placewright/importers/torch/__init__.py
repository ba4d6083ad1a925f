"""PyTorch modules, captured as they run, as graphs."""
