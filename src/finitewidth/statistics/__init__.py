"""Networks at initialisation: what random weights make of the inputs."""
