"""What the browser shows of implicit bias."""
