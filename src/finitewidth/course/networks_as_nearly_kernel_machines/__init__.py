"""Networks as nearly kernel machines."""
