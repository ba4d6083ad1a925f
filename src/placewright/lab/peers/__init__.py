"""Methods of others, to compare with; none of them is what `auto` runs."""
