"""An independent, slow check of a plan."""
