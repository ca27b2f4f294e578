"""Claims of finite width after training: each one theory beside measurement."""
