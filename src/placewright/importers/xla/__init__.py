"""Graphs from XLA programs, the form that HLO, StableHLO and jaxprs share."""
