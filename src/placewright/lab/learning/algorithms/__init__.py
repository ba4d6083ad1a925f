"""Algorithms that learn weights, one file per algorithm."""
