"""Networks as an inference compiler passes them to a chip: in int8, with one op per kernel."""
