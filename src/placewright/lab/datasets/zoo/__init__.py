"""Real networks written in PyTorch, one family per file, and their capture as a set of graphs."""
