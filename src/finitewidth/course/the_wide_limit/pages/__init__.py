"""What the browser shows of the wide limit."""
