"""Graph, machine, objective, limits and constraints, lowered to flat arrays for the core."""

from placewright.problem.problem import Problem

__all__ = ["Problem"]
