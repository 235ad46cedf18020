"""Rounds reported to experiment trackers, beside the history."""
