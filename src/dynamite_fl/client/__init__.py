"""What does a device do in a round? PyTorch."""
