"""Cost model: the time of every op on every device."""

from placewright.costs.estimate import Costs, TimeOrigin, count_sources, estimate_costs

__all__ = ["Costs", "TimeOrigin", "count_sources", "estimate_costs"]
