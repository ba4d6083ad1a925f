"""Rules: what a policy of REGAL is to be compared with, the best that its features give without a network."""
