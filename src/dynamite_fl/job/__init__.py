"""Job files: from TOML to objects."""
