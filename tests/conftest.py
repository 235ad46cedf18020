import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings

# `make test` has the same few cases in every run, so that a failure seen once is seen again;
# `make test-all` has many, and others each time.
settings.register_profile(
    "quick", derandomize=True, deadline=None, print_blob=True, max_examples=25, database=None
)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A shell that starts the tests in the background makes them ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that share fixtures which take long to make run in one process; these are the beginnings of
# their names, and their groups.
_TOGETHER = {
    "tests/experiments/": "experiments",
    "tests/faults/test_folders.py": "folders",
    "tests/faults/test_kills.py": "kills",
    "tests/_cli/test_experiment.py": "experiments",
    "tests/findings/": "findings",
    "tests/gallery/test_examples.py": "gallery",
    "tests/gallery/test_own_data.py": "gallery",
    "tests/report/": "report",
    "tests/_cli/test_report.py": "report",
    "tests/simulation/test_workers.py": "workers",
    "tests/tracking/": "tracking",
}


@pytest.hookimpl(optionalhook=True)  # pytest-xdist has it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share out tests one by one, but groups as a whole.

    The mark ``xdist_group`` would do the same, but pytest 9.2 ignores the names that pytest-xdist
    3.8 gives to marked tests.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            for beginning, group in _TOGETHER.items():
                if nodeid.startswith(beginning):
                    return group
            return nodeid

    return Groups(config, log)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Let files be written without waiting for the disk, which matters only if power fails."""
    with patch.object(os, "fsync", lambda _: None):
        yield


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that shows a line at the end of all tests, from any process."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [each for kind in terminalreporter.stats.values() for each in kind]
    properties = [pair for each in reports for pair in getattr(each, "user_properties", ())]
    figures = dict.fromkeys(str(value) for key, value in properties if key == "figure")
    if figures:
        terminalreporter.section("figures")
        for text in figures:
            terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs of some experiments at the scale ``smoke``, to be read only.

    Slow tests add those of all other experiments.
    """
    from tests.experiments.smoke import QUICK_NAMES, run_here, smoke

    root = tmp_path_factory.mktemp("experiments")
    for name in QUICK_NAMES:
        run_here(smoke(name, root))
    return root
