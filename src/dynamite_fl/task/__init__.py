"""What is learned: tasks, models, losses, datasets and their partitions (PyTorch)."""
