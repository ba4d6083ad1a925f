"""Rematerialization: ops run again, so that their results need not be held meanwhile."""
