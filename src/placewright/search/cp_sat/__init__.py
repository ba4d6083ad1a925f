"""Method "cp-sat": models of a problem for the solver of OR-tools, and the method around them."""

from placewright.search.cp_sat.solver import CpSat

__all__ = ["CpSat"]
