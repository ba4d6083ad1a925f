"""Why a plan is as it is, what would help it, how it differs from another."""
