"""List scheduling of clusters by a learned score (docs/lab/placers.md)."""
