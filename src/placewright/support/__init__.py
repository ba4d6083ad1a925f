"""Common tools: sentences for bad input, atomic writes, tables of TOML files, sizes and times as text."""
