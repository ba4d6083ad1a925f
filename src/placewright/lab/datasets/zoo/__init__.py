"""Real networks written out in PyTorch, one family per file, and what turns them into a set of graphs."""
