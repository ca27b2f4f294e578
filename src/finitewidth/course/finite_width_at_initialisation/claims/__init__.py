"""Claims of finite width at initialisation: each one theory beside measurement."""
