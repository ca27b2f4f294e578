"""Four factors."""
