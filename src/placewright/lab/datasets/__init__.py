"""Sets of graphs to search and to learn on: synthetic ones, real networks, and the file they are kept in."""
