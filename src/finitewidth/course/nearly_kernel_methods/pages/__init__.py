"""What the browser shows of nearly kernel methods."""
