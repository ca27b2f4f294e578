"""What the browser shows of linear regions."""
