"""What signals and gradients do from layer to layer."""
