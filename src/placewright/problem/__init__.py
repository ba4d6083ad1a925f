"""The planning problem: graph, machine, objective, limits and constraints, lowered to flat arrays for the core."""

from placewright.problem.problem import Problem, make_problem

__all__ = ["Problem", "make_problem"]
