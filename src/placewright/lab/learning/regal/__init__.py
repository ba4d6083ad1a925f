"""REGAL (Paliwal et al. 2020): from a problem to a proposal with numpy alone; its training is in PyTorch."""
