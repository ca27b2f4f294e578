"""Claims about which of all solutions training picks."""
