"""One run of a search: what it may spend, how it is driven, what it returns."""
