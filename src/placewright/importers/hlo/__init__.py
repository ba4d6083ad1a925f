"""HLO text as programs of `xla`."""
