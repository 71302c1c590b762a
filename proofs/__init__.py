"""The proofs: every claim of the project in full, its figure against its target. `scripts/prove` runs them."""
