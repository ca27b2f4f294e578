"""Gaussian averages of activations: closed forms, Hermite series, quadrature."""
