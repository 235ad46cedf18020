"""The tracker MLflow: by default, a database beside the run folders.

MLflow's own variables ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME`` choose another store
and experiment.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # training waits during a request
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from dynamite_fl._atomic import write_atomically
from dynamite_fl.tracking.tracker import TrackedRun, round_metrics
from dynamite_fl.training.round_record import RoundRecord

_LONGEST_PARAM = 500  # characters; MLflow refuses very long parameters
_EXPERIMENT = "dynamite"
_EVERY_ROUND = "seconds"  # a metric that every round has

for _name in ("mlflow", "alembic"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # they log every table that they create


def open_store(runs: Path) -> tuple[MlflowClient, str]:
    """Return a client and the id of the experiment; create both if they are missing."""
    uri, artifacts = os.environ.get("MLFLOW_TRACKING_URI"), None
    if not uri:
        uri = f"sqlite:///{runs.resolve() / 'mlflow.db'}"
        artifacts = (runs.resolve() / "mlflow-artifacts").as_uri()
    client = MlflowClient(tracking_uri=uri)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        return client, str(experiment.experiment_id)
    return client, str(client.create_experiment(name, artifact_location=artifacts))


class MLflow:
    """An MLflow run for a training, the same one after a resume.

    MLflow cannot remove single rounds, and need not: rounds that are played again after a resume
    have the same figures, and trainings on real machines, where they could differ, have a
    checkpoint after each round.
    """

    def __init__(self, run: TrackedRun) -> None:
        self._leading_metric = run.leading_metric
        self._client, experiment = open_store(run.folder.parent)
        self._run_id = self._existing_run(run) or self._create_run(run, experiment)
        self._client.update_run(self._run_id, status="RUNNING")
        recorded = self._client.get_metric_history(self._run_id, _EVERY_ROUND)
        self.last_round = max((metric.step for metric in recorded), default=0)

    def _existing_run(self, run: TrackedRun) -> str | None:
        """Return the id of the run that was created before, if this store has it."""
        file = _id_file(run)
        if not file.is_file():
            return None
        run_id = file.read_text(encoding="utf-8").strip()
        try:
            self._client.get_run(run_id)
        except MlflowException:
            return None
        return run_id

    def _create_run(self, run: TrackedRun, experiment: str) -> str:
        """Create a run with the job as its parameters; return its id."""
        name = run.folder.resolve().name
        run_id = str(self._client.create_run(experiment, run_name=name).info.run_id)
        params = [Param(key, value[:_LONGEST_PARAM]) for key, value in dotted_keys(run.tables)]
        self._client.log_batch(run_id, params=params)
        self._client.log_text(run_id, run.job, "job.toml")
        write_atomically(_id_file(run), f"{run_id}\n")
        return run_id

    def record(self, record: RoundRecord) -> None:
        """Record a round."""
        now = int(time.time() * 1000)
        metrics = [
            Metric(name, value, now, record.round)
            for name, value in round_metrics(record, self._leading_metric).items()
        ]
        self._client.log_batch(self._run_id, metrics=metrics)
        self.last_round = record.round

    def close(self, error: BaseException | None) -> None:
        """Record how the training ended."""
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
        status = "KILLED" if interrupted else "FAILED"
        self._client.set_terminated(self._run_id, "FINISHED" if error is None else status)


def _id_file(run: TrackedRun) -> Path:
    return run.folder / "mlflow-run.txt"


def dotted_keys(tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a job with the names of their tables, and their values as text.

    Example:
        >>> dict(dotted_keys({"devices": "vm20", "limits": {"rounds": 5}}))
        {'devices': 'vm20', 'limits.rounds': '5'}
    """
    for name, table in tables.items():
        if isinstance(table, Mapping):
            yield from ((f"{name}.{key}", str(value)) for key, value in table.items())
        else:
            yield name, str(table)
