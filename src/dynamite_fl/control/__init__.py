"""Controllers, which decide the local steps and batch sizes of every round."""
