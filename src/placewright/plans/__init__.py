"""A solution becomes a plan: times, buffers, memory curves; plans on disk."""
