"""Matrices without any theory: factorisations, products, eigenvalues."""
