"""What the learners of memory maps are made of (Khadka et al. 2021, EGRL); the algorithms themselves stand beside
REINFORCE in `algorithms/`."""
