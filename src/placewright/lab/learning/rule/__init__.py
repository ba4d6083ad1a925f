"""Rules to compare REGAL's policies with: the best result that its features give without a network."""
