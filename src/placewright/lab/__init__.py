"""The laboratory: learned placement and its papers, peers to compare with, data sets and benchmarks.

Nothing of the product imports it. It adds its methods and policies to the product's tables (`registration.py`) when a
name is requested that the product does not know, and its commands (`commands/`).
"""
