"""Policies: from a problem to a proposal, with numpy alone. They are trained in placewright.training."""
