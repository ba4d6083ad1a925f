"""Plans: made from solutions, with times, buffers and memory curves, and stored on disk."""
