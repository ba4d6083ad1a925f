"""Learners: policies that guide a search, the search they guide, and how they are trained."""
