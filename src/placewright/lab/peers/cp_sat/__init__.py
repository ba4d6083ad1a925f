"""Methods "cp-sat" and "cp-sat-cold": models of a problem for OR-tools' solver."""

from placewright.lab.peers.cp_sat.solver import CP_SAT_COLD, CpSat

__all__ = ["CP_SAT_COLD", "CpSat"]
