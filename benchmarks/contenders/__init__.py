"""Ways to simulate the same federated rounds, each in a process of its own; see ``peers.py``."""
