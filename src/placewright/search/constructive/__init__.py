"""Heuristics that construct a few plans, each from scratch."""
