from hypothesis import settings

# The same cases in every run: a failure seen once is seen again.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")
