"""What training does to a function."""
