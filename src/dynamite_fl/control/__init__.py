"""How is it decided each round? NumPy only."""
