import os
from pathlib import Path

import pytest

from tests.regressions import REGRESSION, TWO_CLIENTS
from tests.report.runs import STREAM, play_comparison, play_run

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before a test imports it


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play a run with the default controller, a run on a stream, a regression, and comparisons."""
    folder = tmp_path_factory.mktemp("runs")
    play_run(folder / "plain")
    play_run(folder / "stream", [STREAM, "controller.name=dynamite", "training.learning_rate=0.1"])
    play_run(folder / "regression", TWO_CLIENTS)
    play_comparison(folder / "versus")
    play_comparison(folder / "errors", REGRESSION)
    return folder
