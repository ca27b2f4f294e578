"""Random networks as their width grows."""
