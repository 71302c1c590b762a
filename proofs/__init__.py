"""The proofs: every claim of the project in full, its value against its target. `scripts/prove` runs them."""
