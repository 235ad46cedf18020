"""Checkpoints: all that a resumed training needs to go on to the same bits.

A checkpoint is replaced as a whole, and the one before it is kept. When a training goes on, the
history is cut back to the checkpoint's round, so that what follows is what an uninterrupted
training would have written. A checkpoint says which run it is of, and how the history of its rounds
ends.
"""

import warnings
from dataclasses import dataclass

from dynamite_fl._atomic import remove_leftovers, write_atomically
from dynamite_fl.client.messages import ClientState
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.codec import load_record, save_model, save_record
from dynamite_fl.training.history_file import keep_first_rounds
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.training import Training


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a training after some round.

    Attributes:
        progress: The state of the server.
        clients: The places of those clients whose state is kept by the engine.
        states: The state of each of these clients.
        run: The digest of the run's job, data and metric.
        history: The check of the history's last line.
    """

    progress: Progress
    clients: tuple[int, ...]
    states: tuple[ClientState, ...]
    run: str = ""
    history: str = ""


def save(training: Training, folder: RunFolder, progress: Progress, last_check: str) -> None:
    """Write the model, at the end of the training what ended it, and last the checkpoint.

    A kill before the checkpoint is written leaves an older one, from which a resume computes the
    same model and the same end again. A folder that says what ended its training has the whole
    history and the last model, whether a resume follows or not.

    Args:
        training: The training.
        folder: The run's folder.
        progress: The progress to save.
        last_check: The check of the history's last line.
    """
    save_result(training, folder, progress, last_check)
    states = training.engine.states
    clients = tuple(sorted(states))
    save_record(
        folder.checkpoint,
        Checkpoint(
            progress,
            clients,
            tuple(states[client] for client in clients),
            folder.first_check() or "",
            last_check,
        ),
        about={"rounds": progress.ledger.rounds, "history": last_check},
        keep_as=folder.earlier_checkpoint,
    )


def save_result(training: Training, folder: RunFolder, progress: Progress, last_check: str) -> None:
    """Write the model and, at the end of the training, what ended it; see ``save``."""
    save_model(folder.model, training.engine.state_dict(progress.weights))
    if progress.ended:
        folder.write_end(progress.ended, last_check)


def restore(training: Training, folder: RunFolder, fresh: Progress) -> Progress:
    """Return the progress that a folder holds, or the fresh one if there is no checkpoint.

    If the last checkpoint is damaged, the one before it takes its place, with a warning.

    Args:
        training: The training; its clients get their states back.
        folder: The run's folder.
        fresh: The progress before the first round.

    Raises:
        RunFolderError: The checkpoint or the history is damaged, or of another training.
    """
    folder.check_files()
    remove_leftovers(folder.path)
    checkpoint = _load_last(folder, fresh)
    if checkpoint is None:
        folder.ended.unlink(missing_ok=True)
        write_atomically(folder.history, "")
        return fresh
    if checkpoint.progress.ended is None:
        folder.ended.unlink(missing_ok=True)
    keep_first_rounds(folder, checkpoint.progress.ledger.rounds, checkpoint.history)
    training.engine.states.update(zip(checkpoint.clients, checkpoint.states, strict=True))
    return checkpoint.progress


def _load_last(folder: RunFolder, fresh: Progress) -> Checkpoint | None:
    """Return the last checkpoint; None if there was none.

    Raises:
        RunFolderError: It is damaged, and there is none before it, or it is of another training.
    """
    checkpoint = _load_sound(folder, type(fresh.control))
    if checkpoint is None:
        return None
    if checkpoint.run != (folder.first_check() or ""):
        raise RunFolderError(
            f"{folder.checkpoint} is of another run, whose job, data or metric differ: copy it "
            "from a backup, or begin anew in another folder"
        )
    if checkpoint.progress.weights.shape != fresh.weights.shape:
        raise RunFolderError(f"{folder.checkpoint} is of a model of another size")
    return checkpoint


def _load_sound(folder: RunFolder, control: type) -> Checkpoint | None:
    """Return the last checkpoint, or the one before it if the last is damaged or missing."""
    last, earlier = folder.checkpoint, folder.earlier_checkpoint
    if not last.exists() and not earlier.exists():
        return None
    try:
        return load_record(last, Checkpoint, unknown=control)
    except RunFolderError as error:
        try:
            checkpoint = load_record(earlier, Checkpoint, unknown=control)
        except RunFolderError:
            raise RunFolderError(f"{error}; remove it to begin the training anew") from None
        if last.exists():  # or else a kill came between two names
            rounds = checkpoint.progress.ledger.rounds
            warnings.warn(f"{error}; the training goes on after round {rounds}", stacklevel=2)
    earlier.replace(last)
    return checkpoint
