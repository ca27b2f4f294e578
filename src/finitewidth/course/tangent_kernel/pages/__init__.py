"""What the browser shows of tangent kernel."""
