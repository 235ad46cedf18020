"""The data on a device over time: arrivals, their order, and the buffer (NumPy)."""
