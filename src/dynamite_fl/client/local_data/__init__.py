"""A device's own samples, which arrive while it trains."""
