"""The checks of `make lint`: formatting, static analysis, types, who includes whom. `scripts/lint` runs them."""
