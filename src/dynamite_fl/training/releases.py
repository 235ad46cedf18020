"""Rounds of real machines that were begun, so that a crash cannot hide the privacy they spent.

In a simulation, a round that is repeated after a crash gets the same noise, and nothing new is
given away. On real machines noise is secret and drawn anew, so that the repeated round is one more
release. Each round is therefore written down before its orders are sent.
"""

from dataclasses import replace

from dynamite_fl._atomic import write_atomically
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.private_rules import is_epsilon_used_up, spent_epsilon
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.training import Training


def note_release(training: Training, folder: RunFolder | None, progress: Progress) -> None:
    """Write down that the next round begins, if its noise is secret."""
    if folder is None or progress.private is None or progress.ended is not None:
        return
    if training.privacy is not None and training.privacy.is_secret:
        write_atomically(folder.releases, f"{progress.private.releases + 1}\n")


def with_lost_releases(training: Training, folder: RunFolder, progress: Progress) -> Progress:
    """Return the progress with the releases of rounds that were begun and never saved.

    Raises:
        RunFolderError: The file with their number is damaged.
    """
    if training.privacy is None or progress.private is None or not folder.releases.exists():
        return progress
    try:
        begun = int(folder.releases.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{folder.releases} is damaged: {error}") from None
    if begun <= progress.private.releases or progress.ended is not None:
        return progress
    private = replace(progress.private, releases=begun)
    ledger = replace(progress.ledger, epsilon=spent_epsilon(training.privacy, private))
    is_used_up = is_epsilon_used_up(training.privacy, private)
    ended = "epsilon" if is_used_up else None
    return replace(progress, private=private, ledger=ledger, ended=ended)
