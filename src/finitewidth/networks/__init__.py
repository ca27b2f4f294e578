"""Real networks: drawn, evaluated and trained, without any theory."""
