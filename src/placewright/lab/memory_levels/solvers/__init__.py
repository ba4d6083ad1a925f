"""Solvers of memory problems, one per file; `table.py` lists them."""
