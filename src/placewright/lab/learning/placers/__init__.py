"""Published systems that learn a placement for one graph by trying placements, one file each (docs/lab/placers.md)."""
