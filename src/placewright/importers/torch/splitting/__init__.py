"""Stretches of a captured step that run in parts along one axis."""
