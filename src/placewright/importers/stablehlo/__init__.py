"""StableHLO text as programs of `xla`."""
