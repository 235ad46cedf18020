from pathlib import Path

import pytest

from dynamite_fl.experiments import NAMES
from tests.experiments.smoke import run_here, smoke


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all runs of every experiment at the scale ``smoke``; only to be read."""
    root = tmp_path_factory.mktemp("experiments")
    for name in NAMES:
        run_here(smoke(name, root))
    return root
