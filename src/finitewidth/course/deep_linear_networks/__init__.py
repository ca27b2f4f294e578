"""Deep linear networks, random and conditioned on data, exact at every width and depth."""
