"""Real networks trained: optimisers, ensembles, pieces, control variates."""
