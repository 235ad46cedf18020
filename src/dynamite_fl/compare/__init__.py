"""Controllers side by side on the same job and limits."""
