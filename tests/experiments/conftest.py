from pathlib import Path

import pytest

from dynamite_fl.experiments import NAMES
from tests.experiments.plays import play, smoke


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every experiment has its runs at the scale ``smoke``; only to be read."""
    runs = tmp_path_factory.mktemp("experiments")
    for name in NAMES:
        play(smoke(name, runs))
    return runs
