"""What knows nothing of networks: checks, arrays, estimates, files, programs, small linear algebra."""
