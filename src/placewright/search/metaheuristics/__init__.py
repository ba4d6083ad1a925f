"""Searches that go from plan to plan while the budget lasts."""
