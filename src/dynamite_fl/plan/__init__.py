"""Optimal plans: the best local steps and batch sizes for a fleet and its limits."""
