"""Networks of libraries by the hundred: listed by name, captured one by one, split by family."""
