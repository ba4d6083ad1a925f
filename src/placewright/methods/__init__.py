"""The table of methods, including those registered from outside."""
