"""Plans on real devices: what each device does, step by step, and the workers that do it."""
