"""Claims of nearly kernel methods: each one theory beside measurement."""
