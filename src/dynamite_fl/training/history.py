"""The history of a training: one record for each round, kept as one line of JSON each.

Everything that a person sees of a training is computed from it.
"""

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from dynamite_fl._atomic import write_atomically
from dynamite_fl.errors import MissingExtra, RunFolderError
from dynamite_fl.training.round_record import FIELDS, RoundRecord, parse_line


@dataclass(frozen=True)
class History(Sequence[RoundRecord]):
    """The rounds of a training, oldest first.

    Example:
        >>> first = RoundRecord(
        ...     round=1, seconds=2.0, cost=3.0, local_steps=4, batch_mean=5.0, accuracy=0.5
        ... )
        >>> history = History((first,))
        >>> len(history), history[-1].accuracy, history.columns()["cost"]
        (1, 0.5, [3.0])
    """

    records: tuple[RoundRecord, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "RoundRecord | History":
        if isinstance(index, slice):
            return History(self.records[index])
        return self.records[index]

    def columns(self) -> dict[str, list[Any]]:
        """Return a list for each field, with one entry for each round.

        Fields that no round has are left out.
        """
        rows = [record.values() for record in self]
        names = [name for name in FIELDS if any(name in row for row in rows)]
        return {name: [row.get(name) for row in rows] for name in names}

    def to_pandas(self) -> Any:
        """Return the columns as a ``pandas.DataFrame``.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise MissingExtra("History.to_pandas", "pandas") from None
        return pandas.DataFrame(self.columns())

    def last(self, field: str) -> Any:
        """Return the latest value of a field that is not None; None if there is none."""
        values = (getattr(record, field) for record in reversed(self))
        return next((value for value in values if value is not None), None)

    @property
    def final_accuracy(self) -> float:
        """Accuracy at the last evaluation; NaN if there was none."""
        accuracy = self.last("accuracy")
        return math.nan if accuracy is None else float(accuracy)

    @property
    def best_accuracy(self) -> float:
        """The highest accuracy of all evaluations; NaN if there was none."""
        known = [record.accuracy for record in self if record.accuracy is not None]
        return max(known, default=math.nan)

    @property
    def worst_class(self) -> tuple[str, float] | None:
        """The class of the lowest accuracy at the last evaluation, with that accuracy."""
        accuracies = self.last("class_accuracy") or {}
        known = [(name, accuracy) for name, accuracy in accuracies.items() if accuracy is not None]
        return min(known, key=lambda pair: pair[1], default=None)

    def first_reaching(self, accuracy: float) -> RoundRecord | None:
        """Return the first round whose model is at least this accurate; None if there is none."""
        for record in self:
            if record.accuracy is not None and record.accuracy >= accuracy:
                return record
        return None


@dataclass(frozen=True)
class RecoveredHistory:
    """What can be read of a history file that may be damaged.

    Attributes:
        history: The rounds that can be read.
        problems: What is wrong with the file, one sentence each.
    """

    history: History
    problems: tuple[str, ...] = ()


def read_history(path: Path) -> History:
    """Return the history in a file. A last line that is cut off is ignored.

    Raises:
        RunFolderError: A line is damaged.
    """
    records = []
    for index, line in enumerate(_whole_lines(_text(path)), start=1):
        record = parse_line(line)
        if record is None:
            raise RunFolderError(f"{path} is damaged: line {index} does not describe a round")
        records.append(record)
    return History(tuple(records))


def recover_history(path: Path) -> RecoveredHistory:
    """Return what can be read of the history in a file, and what cannot."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = _whole_lines(text)
    parsed = [parse_line(line) for line in lines]
    damaged = [index for index, record in enumerate(parsed, start=1) if record is None]
    problems = []
    if text and not text.endswith("\n"):
        problems.append("the history is cut off in the middle of its last line")
    if damaged:
        verb = "does" if len(damaged) == 1 else "do"
        others = " and others" if len(damaged) > 1 else ""
        problems.append(
            f"{len(damaged)} of the {len(lines)} lines of the history {verb} not describe a round "
            f"and {'is' if len(damaged) == 1 else 'are'} left out: line {damaged[0]}{others}"
        )
    records = tuple(record for record in parsed if record is not None)
    return RecoveredHistory(History(records), tuple(problems))


def keep_first_rounds(path: Path, rounds: int) -> None:
    """Cut a history file back to its first rounds, which stay as they are to the byte.

    Raises:
        RunFolderError: The file does not hold just these rounds, one after the other.
    """
    lines = _whole_lines(_text(path))[:rounds]
    records = [parse_line(line) for line in lines]
    if [record and record.round for record in records] != list(range(1, rounds + 1)):
        raise RunFolderError(f"{path} does not hold the rounds 1 to {rounds} of its checkpoint")
    write_atomically(path, "".join(lines))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from None


def _whole_lines(text: str) -> list[str]:
    """Return the lines of a file without a last one that is cut off."""
    return [f"{line}\n" for line in text.split("\n")[:-1]]
