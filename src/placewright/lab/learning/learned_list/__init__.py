"""List scheduling of clusters by a learned score (docs/placers.md)."""
