"""Which norm an optimiser descends by, and what that makes of rescaled networks."""
