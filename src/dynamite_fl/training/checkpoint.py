"""Checkpoints: all that a resumed training needs to go on to the same bits.

A checkpoint is replaced as a whole. When a training goes on, the history is cut back to the
checkpoint's round, so that what follows is what an uninterrupted training would have written.
"""

from dataclasses import dataclass

from dynamite_fl._atomic import remove_leftovers, write_atomically
from dynamite_fl.client.messages import ClientState
from dynamite_fl.errors import RunFolderError
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
    """Write the model, at the end of the training what ended it, and last the checkpoint.

    A kill before the checkpoint is written leaves an older one, from which a resume computes the
    same model and the same end again. A folder that says what ended its training has the whole
    history and the last model, whether a resume follows or not.
    """
    states = training.engine.states
    clients = tuple(sorted(states))
    save_model(folder.model, training.engine.state_dict(progress.weights))
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

    Raises:
        RunFolderError: The checkpoint or the history is damaged, or of another training.
    """
    remove_leftovers(folder.path)
    if not folder.checkpoint.exists():
        folder.ended.unlink(missing_ok=True)
        write_atomically(folder.history, "")
        return fresh
    found = load_record(folder.checkpoint, Checkpoint, unknown=type(fresh.control))
    if found.progress.weights.shape != fresh.weights.shape:
        raise RunFolderError(f"{folder.checkpoint} is of a model of another size")
    if found.progress.ended is None:
        folder.ended.unlink(missing_ok=True)
    keep_first_rounds(folder.history, found.progress.ledger.rounds)
    training.engine.states.update(zip(found.clients, found.states, strict=True))
    return found.progress
