"""A device's part in a round: Algorithm 3. Uses PyTorch."""
