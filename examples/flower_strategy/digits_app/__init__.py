"""An ordinary Flower app, kept within a deadline and a budget."""
