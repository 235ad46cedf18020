"""Checkpoints: all that a resumed training needs to go on to the same bits.

A checkpoint is replaced as a whole. When a training goes on, the history is cut back to the
checkpoint's round, so that what follows is what an uninterrupted training would have written.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl.client.messages import ClientState
from dynamite_fl.errors import OutputError
from dynamite_fl.training.codec import load_record, save_model, save_record
from dynamite_fl.training.history import keep_first_rounds
from dynamite_fl.training.loop import Progress, Training
from dynamite_fl.training.run_folder import RunFolder


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a training after some round.

    Attributes:
        progress: What the server knows.
        clients: The places of those clients whose state is kept by the engine.
        states: What each of them carries from round to round.
    """

    progress: Progress
    clients: tuple[int, ...]
    states: tuple[ClientState, ...]


def save(training: Training, folder: RunFolder, progress: Progress) -> None:
    """Write the model, then the checkpoint, as they are after the last round.

    In this order a kill between the two leaves a checkpoint that is older than the model, from
    which the same model is computed again.
    """
    states = training.engine.states
    clients = tuple(sorted(states))
    save_model(folder.model, training.engine.named_weights(progress.weights))
    if progress.ended:
        write_atomically(folder.ended, f"{progress.ended}\n")
    checkpoint = Checkpoint(progress, clients, tuple(states[client] for client in clients))
    save_record(folder.checkpoint, checkpoint)


def restore(training: Training, folder: RunFolder, fresh: Progress) -> Progress:
    """Return the progress that a folder holds, or the fresh one if there is no checkpoint.

    Args:
        training: The training; its clients get their states back.
        folder: The run's folder.
        fresh: The progress before the first round.
    """
    if not folder.checkpoint.exists():
        write_atomically(folder.history, "")
        return fresh
    found = load_record(folder.checkpoint, Checkpoint, unknown=type(fresh.control))
    training.engine.states.update(zip(found.clients, found.states, strict=True))
    keep_first_rounds(folder.history, found.progress.ledger.rounds)
    return found.progress


def append_line(path: Path, text: str) -> None:
    """Add a line to a file, and return when the disk has it."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
