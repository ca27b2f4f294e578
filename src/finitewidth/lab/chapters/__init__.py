"""The claims, one module for each part of the story."""
