"""GDP (Zhou et al. 2020): a policy that places the ops of any graph, for one or for several (docs/lab/placers.md)."""
