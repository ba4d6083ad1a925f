"""Methods "cp-sat" and "cp-windows": models of a problem, or of a part of a plan, for the solver of OR-tools."""

from placewright.search.exact.cp_sat.solver import CpSat
from placewright.search.exact.cp_sat.windows import CpWindows

__all__ = ["CpSat", "CpWindows"]
