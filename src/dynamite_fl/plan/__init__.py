"""What is optimal? From a fleet and limits to local steps and batch sizes. NumPy only."""
