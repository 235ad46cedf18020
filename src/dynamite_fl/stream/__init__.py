"""What data is on a device, and when? NumPy only."""
