"""A Flower app with DYNAMITE inside."""
