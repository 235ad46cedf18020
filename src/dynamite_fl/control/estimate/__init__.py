"""Estimates of the loss, of the clients' speeds, and of the gain of local steps."""
