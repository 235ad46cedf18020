"""What is learned? PyTorch."""
