"""Training of policies: the only rooms that import torch to learn."""
