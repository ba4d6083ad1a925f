"""What Python callers use: `plan()`, `compile()`, `profile()`, `inspect()` and so on, and what these return."""
