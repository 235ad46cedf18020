"""One round, read downwards: ``loop.py`` has it in numbered steps."""
