"""Methods by others, to compare with; `auto` runs none of them."""
