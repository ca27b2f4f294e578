"""Teachers, and students that must find their features."""
