"""Environments that compute the reward of a guide, one kind per file."""
