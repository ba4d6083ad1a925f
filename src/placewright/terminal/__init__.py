"""Text output of plans, explanations, comparisons and inspections, for terminals and for Python."""
