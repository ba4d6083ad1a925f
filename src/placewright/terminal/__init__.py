"""What plans, explanations, comparisons and inspections look like as text, on a terminal and in Python."""
