"""What the browser shows of loss landscape."""
