"""Explanations of a plan: the causes of its cost, advice for plans that do not fit, differences between two plans."""
