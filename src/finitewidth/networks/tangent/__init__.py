"""Real networks linearised: tangent kernels, differentials, Taylor expansions."""
