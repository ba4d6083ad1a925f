"""Searches that go from plan to plan, as long as the budget lasts."""
