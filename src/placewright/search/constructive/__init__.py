"""Heuristics that build a few plans, each from nothing."""
