"""Who runs the round, and what does it cost?"""
