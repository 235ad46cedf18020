"""Many machines: rounds over Flower's messages. Only this package imports flwr."""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # nobody is told of a training unasked
