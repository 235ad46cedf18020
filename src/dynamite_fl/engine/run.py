"""A training that leaves a folder behind, and goes on from it after any interruption.

``runs/<name>/`` holds the resolved job, ``history.jsonl`` with a line a round, the model and a
checkpoint. The checkpoint is replaced whole; the history is cut back to it on a resume, so that
what follows is what an uninterrupted training would have written, to the bit.
"""

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynamite_fl.client.client import ClientState
from dynamite_fl.engine.engine import Evaluation
from dynamite_fl.engine.loop import Progress, Round, Training, begin, rounds
from dynamite_fl.engine.pack import load_record, save_model, save_record
from dynamite_fl.files import write_atomically
from dynamite_fl.records import FloatArray
from dynamite_fl.report.history import Line, read_history, to_line
from dynamite_fl.reports import RoundReport

_LISTED = 200  # clients that a line lists one by one


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a resume needs."""

    progress: Progress
    clients: tuple[int, ...]
    states: tuple[ClientState, ...]


@dataclass(frozen=True)
class RunFolder:
    """Where a training keeps its files."""

    path: Path

    @property
    def job(self) -> Path:
        """The job as it was understood."""
        return self.path / "job.toml"

    @property
    def history(self) -> Path:
        """A line a round."""
        return self.path / "history.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The state after some round."""
        return self.path / "checkpoint.safetensors"

    @property
    def ended(self) -> Path:
        """What ended the training, in a word; not there while it can go on."""
        return self.path / "ended.txt"

    @property
    def nodes(self) -> Path:
        """The names of real machines, in the order of their places; not there if simulated."""
        return self.path / "nodes.json"

    @property
    def model(self) -> Path:
        """The weights by their names."""
        return self.path / "model.safetensors"


def run(
    training: Training,
    folder: RunFolder | None = None,
    *,
    seconds_between_checkpoints: float = 30.0,
) -> Iterator[tuple[Progress, Line | None]]:
    """Train, or go on training, round by round; the files are current whenever it pauses."""
    start = _restore(training, folder) if folder is not None else begin(training)
    saved = time.monotonic()
    for progress, played in rounds(training, start):
        line = None
        if played is not None:
            line = describe(training, played, progress.control)
        if folder is not None:
            if line is not None:
                _append(folder.history, to_line(line))
            if progress.ended or time.monotonic() - saved >= seconds_between_checkpoints:
                save(training, folder, progress)
                saved = time.monotonic()
            if progress.ended:
                write_atomically(folder.ended, f"{progress.ended}\n")
        yield progress, line


def save(training: Training, folder: RunFolder, progress: Progress) -> None:
    """Write the checkpoint and the model as they are after the last round."""
    states = training.engine.states
    clients = tuple(sorted(states))
    checkpoint = Checkpoint(progress, clients, tuple(states[client] for client in clients))
    save_record(folder.checkpoint, checkpoint)
    save_model(folder.model, training.engine.named(progress.weights))


def _restore(training: Training, folder: RunFolder) -> Progress:
    """The progress that a folder holds; a new one if it holds none."""
    folder.path.mkdir(parents=True, exist_ok=True)
    fresh = begin(training)
    if not folder.checkpoint.exists():
        write_atomically(folder.history, "")
        return fresh
    found = load_record(folder.checkpoint, Checkpoint, unknown=type(fresh.control))
    training.engine.states.update(zip(found.clients, found.states, strict=True))
    kept = read_history(folder.history).lines[: found.progress.ledger.rounds]
    write_atomically(folder.history, "".join(to_line(line) for line in kept))
    return found.progress


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _judged(evaluation: Evaluation) -> Line:
    """What was found of the model; what does not apply is left out."""
    line: Line = {"accuracy": evaluation.accuracy, "loss": evaluation.loss}
    if evaluation.class_accuracy:
        line["class_accuracy"] = {str(k): value for k, value in evaluation.class_accuracy.items()}
    if evaluation.stream_loss is not None:
        line["stream_loss"] = evaluation.stream_loss
    return line


def describe(training: Training, played: Round, control: Any) -> Line:
    """A round for the history."""
    report, ledger = played.outcome.report, played.ledger
    sizes = report.batch_sizes
    away = report.clients[~report.present]
    line: Line = {
        "round": ledger.rounds,
        "seconds": ledger.seconds,
        "cost": ledger.cost,
        "samples": ledger.samples,
        "sent_bytes": ledger.sent_bytes,
        "round_seconds": played.outcome.seconds,
        "local_steps": report.local_steps,
        "batch_mean": float(sizes.mean()),
        "batch_least": int(sizes.min()),
        "batch_most": int(sizes.max()),
        "slowest": _slowest(report),
        "bound": played.plan.bound,
        "probed": report.probe is not None,
        "absent": away.tolist(),
        "refused": played.refused,
        "accuracy": None,
        "loss": None,
        "estimates": training.controller.describe(control),
    }
    if played.evaluation is not None:
        line |= _judged(played.evaluation)
    if sizes.size <= _LISTED:
        line["clients"] = report.clients.tolist()
        line["batch_sizes"] = sizes.tolist()
        line["step_seconds"] = _short(report.step_seconds)
        line["comm_seconds"] = _short(report.comm_seconds)
        line["arrived"] = [None if math.isnan(each) else int(each) for each in report.samples]
    return line


def _slowest(report: RoundReport) -> int | None:
    """Who took longest of those that came; None if nobody did."""
    seconds = report.local_steps * report.step_seconds + report.comm_seconds
    if np.isnan(seconds).all():
        return None
    return int(report.clients[np.nanargmax(seconds)])


def _short(column: FloatArray) -> list[float | None]:
    """Numbers to six digits, which is as good as they are measured; None for NaN."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in column]
