"""Rounds of real machines that were begun, so that a crash cannot hide the privacy they spent.

In a simulation, a round that is repeated after a crash gets the same noise, and nothing new is
given away. On real machines noise is secret and drawn anew, so that the repeated round is one more
release. Each round is therefore written down before its orders are sent.
"""

from dataclasses import replace

from dynamite_fl._atomic import write_atomically
from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.line_checks import digest
from dynamite_fl.training.private_rules import is_epsilon_used_up, spent_epsilon
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.training import Training

_MOST_BYTES = 1000


def note_release(training: Training, folder: RunFolder | None, progress: Progress) -> None:
    """Write down that the next round begins, if its noise is secret."""
    if folder is None or progress.private is None or progress.ended is not None:
        return
    if training.privacy is not None and training.privacy.is_secret:
        write_releases(folder, progress.private.releases + 1)


def write_releases(folder: RunFolder, releases: int) -> None:
    """Write the number of releases, with a check that ties it to the run."""
    write_atomically(folder.releases, f"{releases}\n{_check(folder, str(releases))}\n")


def with_lost_releases(training: Training, folder: RunFolder, progress: Progress) -> Progress:
    """Return the progress with the releases of rounds that were begun and never saved.

    Raises:
        RunFolderError: The file with their number is damaged, or missing though it was written.
    """
    if training.privacy is None or progress.private is None or progress.ended is not None:
        return progress
    if not training.privacy.is_secret:
        return progress
    saved = progress.private.releases
    begun = _read(folder)
    if begun < saved:  # each round is written down before it begins
        raise _damaged(folder, f"it has {begun} of at least {saved} rounds")
    if begun == saved:
        return progress
    private = replace(progress.private, releases=begun)
    ledger = replace(progress.ledger, epsilon=spent_epsilon(training.privacy, private))
    is_used_up = is_epsilon_used_up(training.privacy, private)
    ended = "epsilon" if is_used_up else None
    return replace(progress, private=private, ledger=ledger, ended=ended)


def _read(folder: RunFolder) -> int:
    """Return the number of releases that were begun."""
    try:
        lines = read_regular_text(folder.releases, _MOST_BYTES).splitlines()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _damaged(folder, str(error.strerror)) from None
    if len(lines) != 2 or lines[1] != _check(folder, lines[0]):
        raise _damaged(folder, "its check is wrong")
    return int(lines[0])


def _check(folder: RunFolder, releases: str) -> str:
    return digest(folder.first_check() or "", releases)


def _damaged(folder: RunFolder, reason: str) -> RunFolderError:
    return RunFolderError(
        f"{folder.releases} is damaged: {reason}. It says how much privacy was spent, so the "
        "training cannot go on without it: copy it from a backup"
    )
