"""What to choose and what to expect: ridges, noise, models, learning curves and certificates."""
