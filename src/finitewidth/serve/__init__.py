"""`finitewidth serve`: the laboratory in the browser."""
