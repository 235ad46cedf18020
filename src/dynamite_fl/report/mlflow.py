"""Rounds for MLflow, in its own database beside the run folders or wherever it is told to.

``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME`` are MLflow's own ways to say where.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a training reports to nobody else
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # rounds wait for it meanwhile
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from dynamite_fl.files import write_atomically
from dynamite_fl.report.history import Line
from dynamite_fl.report.tracking import Tracked, metrics

_LONGEST = 500  # letters of a parameter; MLflow refuses very long ones
_EXPERIMENT = "dynamite"
_LAST = "seconds"  # a metric that each round has

for _name in ("mlflow", "alembic"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # they tell of each table that they make


def open_store(runs: Path) -> tuple[MlflowClient, str]:
    """A client, and the experiment that runs belong to; both are made if they are not there."""
    uri, artifacts = os.environ.get("MLFLOW_TRACKING_URI"), None
    if not uri:
        uri = f"sqlite:///{runs.resolve() / 'mlflow.db'}"
        artifacts = (runs.resolve() / "mlflow-artifacts").as_uri()
    client = MlflowClient(tracking_uri=uri)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
    found = client.get_experiment_by_name(name)
    if found is not None:
        return client, str(found.experiment_id)
    return client, str(client.create_experiment(name, artifact_location=artifacts))


class MLflow:
    """A run of MLflow's for a run of ours, the same one after a resume.

    It cannot forget a round. A resume plays rounds once more to the very same figures, or, on real
    machines, has a checkpoint after each, so those that are known are left as they are.
    """

    def __init__(self, tracked: Tracked) -> None:
        self._client, experiment = open_store(tracked.folder.parent)
        self._run = self._known(tracked) or self._made(tracked, experiment)
        self._client.update_run(self._run, status="RUNNING")
        steps = [each.step for each in self._client.get_metric_history(self._run, _LAST)]
        self.last_round = max(steps, default=0)

    def _known(self, tracked: Tracked) -> str | None:
        """The run that was made before, if this store has it."""
        kept = _kept(tracked)
        if not kept.is_file():
            return None
        run = kept.read_text(encoding="utf-8").strip()
        try:
            self._client.get_run(run)
        except MlflowException:
            return None
        return run

    def _made(self, tracked: Tracked, experiment: str) -> str:
        """A new run, with the job."""
        name = tracked.folder.resolve().name
        run = str(self._client.create_run(experiment, run_name=name).info.run_id)
        params = [Param(key, value[:_LONGEST]) for key, value in flat(tracked.tables)]
        self._client.log_batch(run, params=params)
        self._client.log_text(run, tracked.job, "job.toml")
        write_atomically(_kept(tracked), f"{run}\n")
        return run

    def record(self, line: Line) -> None:
        """Take down a round."""
        now, step = int(time.time() * 1000), int(line["round"])
        found = [Metric(name, value, now, step) for name, value in metrics(line).items()]
        self._client.log_batch(self._run, metrics=found)
        self.last_round = step

    def close(self, error: BaseException | None) -> None:
        """Say how it ended."""
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
        failed = "KILLED" if interrupted else "FAILED"
        self._client.set_terminated(self._run, "FINISHED" if error is None else failed)


def _kept(tracked: Tracked) -> Path:
    return tracked.folder / "mlflow-run.txt"


def flat(tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A job's keys with their tables before them.

    Example:
        >>> dict(flat({"devices": "vm20", "limits": {"rounds": 5}}))
        {'devices': 'vm20', 'limits.rounds': '5'}
    """
    for name, table in tables.items():
        if isinstance(table, Mapping):
            yield from ((f"{name}.{key}", str(value)) for key, value in table.items())
        else:
            yield name, str(table)
