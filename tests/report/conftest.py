import os
from pathlib import Path

import pytest

from tests.report.runs import STREAM, play_comparison, play_run

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before a test imports it


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play a run with the default controller, a run on a stream, and a comparison."""
    folder = tmp_path_factory.mktemp("runs")
    play_run(folder / "plain")
    play_run(folder / "stream", [STREAM, "controller.name=dynamite"])
    play_comparison(folder / "versus")
    return folder
