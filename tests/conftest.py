import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# One torch thread per process, child processes included: two on busy cores can be much slower.
os.environ["OMP_NUM_THREADS"] = "1"

# `make test` has the same few cases in every run, so that a failure seen once is seen again;
# `make test-all` has many, and others each time.
settings.register_profile("quick", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A shell that starts the tests in the background makes them ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of these folders share fixtures that take long to make, so they run in one process.
_TOGETHER = ("experiments", "report")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        for folder in _TOGETHER:
            if item.path.is_relative_to(here / folder):
                item.add_marker(pytest.mark.xdist_group(folder))
