"""Searches that can prove that nothing is better."""
