"""Datasets by name, found on disk, downloaded or drawn."""
