"""How weights are learned: one file per algorithm."""
