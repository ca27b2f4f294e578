"""What the browser shows of criticality."""
