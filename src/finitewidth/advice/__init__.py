"""What to set (`tuning`) and what is wrong (`diagnosis`)."""
