"""The Python interface, such as `plan()`, `compile()`, `profile()` and `inspect()`, and the types these return."""
