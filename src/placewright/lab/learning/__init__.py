"""Learners: policies that guide a search, the search they guide, and their training."""
