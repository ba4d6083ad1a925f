"""A second kind of plan: one device with memory levels, and in which of them every tensor of a network lives."""
