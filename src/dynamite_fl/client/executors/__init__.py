"""Executors of Algorithm 3 for the clients of a cohort."""
