"""The law of trained networks of infinite width."""
