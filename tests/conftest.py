import signal

from hypothesis import settings

# The same cases in every run: a failure seen once is seen again.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")

# A shell that starts the tests in the background has them ignore Ctrl-C, which some test.
signal.signal(signal.SIGINT, signal.default_int_handler)
