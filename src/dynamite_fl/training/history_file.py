"""The file of a history: its lines are added, cut off and checked, whatever they say."""

from collections.abc import Sequence
from pathlib import Path

from dynamite_fl._atomic import append_line, write_atomically
from dynamite_fl._regular import read_regular
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.line_checks import check_of, find_broken, with_check
from dynamite_fl.training.round_record import RoundRecord, parse_line
from dynamite_fl.training.run_folder import RunFolder

_ADVICE = "copy it from a backup, or begin anew in another folder"


class HistoryFile:
    """The history of a run, to which rounds are added.

    Attributes:
        last_check: The check of the last line, or what the first line follows.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.history
        lines = read_lines(folder.history) if folder.history.exists() else []
        self.last_check = _last_check(lines, folder)

    def append(self, record: RoundRecord) -> None:
        """Add a round, and return when the disk has it."""
        line, check = with_check(record.to_line(), self.last_check)
        append_line(self._path, line)
        self.last_check = check


def keep_first_rounds(folder: RunFolder, rounds: int, last_check: str) -> None:
    """Cut a history back to its first rounds, which stay as they are to the byte.

    Args:
        folder: The run's folder.
        rounds: The number of rounds to keep.
        last_check: The check that the last of them has, by the checkpoint.

    Raises:
        RunFolderError: The file does not hold just these rounds of this run, one after the other.
    """
    lines = read_lines(folder.history)[:rounds]
    numbers = [record and record.round for record in map(parse_line, lines)]
    wrong = wrong_lines(lines, folder)
    if wrong or numbers != list(range(1, rounds + 1)) or _last_check(lines, folder) != last_check:
        where = f": line {wrong[0]} is damaged or of another run" if wrong else ""
        raise RunFolderError(
            f"{folder.history} does not hold the rounds 1 to {rounds} of its checkpoint{where}; "
            f"{_ADVICE}"
        )
    write_atomically(folder.history, "".join(lines))


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file without a last one that is cut off.

    Raises:
        RunFolderError: The file cannot be read.
    """
    try:
        return whole_lines(read_regular(path).decode("utf-8"))
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}; {_ADVICE}") from None
    except UnicodeDecodeError as error:
        raise RunFolderError(f"{path} is damaged: {error}; {_ADVICE}") from None


def whole_lines(text: str) -> list[str]:
    """Return the lines of a text without a last one that is cut off."""
    return [f"{line}\n" for line in text.split("\n")[:-1]]


def wrong_lines(lines: Sequence[str], folder: RunFolder) -> list[int]:
    """Return the numbers, from 1, of lines that were changed, doubled or are of another run."""
    first = folder.first_check()
    broken = find_broken(lines, first, needed=first is not None)
    return [number for number, is_broken in enumerate(broken, start=1) if is_broken]


def what_is_missing(
    lines: Sequence[str], folder: RunFolder, saved: tuple[int, str] | None
) -> str | None:
    """Say what a history lacks of what its run had, or return None.

    Args:
        lines: The lines of the history.
        folder: The run's folder.
        saved: The value that ``RunFolder.checkpointed`` returned before the history was read.
    """
    if saved is not None and _last_check(lines[: saved[0]], folder) != saved[1]:
        return f"it does not hold the {saved[0]} rounds of its checkpoint"
    if folder.is_finished and not folder.ends_with(_last_check(lines, folder)):
        return "it is not the history that the run ended with"
    return None


def _last_check(lines: Sequence[str], folder: RunFolder) -> str:
    """Return the check of the last line, or that of the run if there are no lines."""
    return (check_of(lines[-1]) if lines else folder.first_check()) or ""
