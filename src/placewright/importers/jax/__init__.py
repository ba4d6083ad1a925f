"""JAX functions, traced, as programs of `xla`."""
