"""Learning rates beyond 2 / lambda_max: catapults and the edge of stability."""
