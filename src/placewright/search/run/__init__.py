"""One run of a search: its budget, how it is driven, and its result."""
