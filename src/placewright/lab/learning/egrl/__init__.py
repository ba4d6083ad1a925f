"""The parts of the learners of memory maps (Khadka et al. 2021, EGRL); the algorithms themselves are in `algorithms/`,
with REINFORCE."""
