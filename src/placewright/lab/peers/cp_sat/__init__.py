"""Methods "cp-sat", "cp-sat-cold" and "cp-windows": models of a problem or a part of a plan for OR-tools' solver."""

from placewright.lab.peers.cp_sat.solver import CP_SAT_COLD, CpSat
from placewright.lab.peers.cp_sat.windows import CpWindows

__all__ = ["CP_SAT_COLD", "CpSat", "CpWindows"]
