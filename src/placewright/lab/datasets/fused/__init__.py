"""Networks as an inference compiler hands them to a chip: int8, and what runs as one kernel is one op."""
