"""What a claim is made of, how it is found and run, and how measurements are compared with predictions."""
