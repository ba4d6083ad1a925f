"""Programs of XLA, the form that HLO, StableHLO and jaxprs share, as graphs."""
