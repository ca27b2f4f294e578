"""How many balls cover a class, and how few numbers describe it stably."""
