"""Networks that stay close to their linearisation."""
