"""Many machines: rounds over Flower's messages. Only this package imports flwr."""
