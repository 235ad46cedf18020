"""Reports of trainings: run folders are read, summarized and drawn on one HTML page."""
