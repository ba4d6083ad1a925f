"""Rematerialization: ops that run again, so that what they make need not be held meanwhile."""
