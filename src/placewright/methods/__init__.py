"""The table of methods, with those registered from outside."""
