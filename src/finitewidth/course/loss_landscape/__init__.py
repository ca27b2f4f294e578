"""Loss landscape."""
