"""The history of a training: one record for each round, kept as one line of JSON each.

Everything that a person sees of a training is computed from it.
"""

import importlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from dynamite_fl._atomic import write_atomically
from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.errors import MissingExtra, RunFolderError
from dynamite_fl.training.round_record import FIELDS, RoundRecord, parse_line
from dynamite_fl.training.run_folder import RunFolder


@dataclass(frozen=True)
class History(Sequence[RoundRecord]):
    """The rounds of a training, oldest first.

    Attributes:
        records: The rounds.
        leading_metric: The metric that ``final``, ``best``, ``worst_client`` and
            ``first_reaching`` are about.

    Example:
        >>> first = RoundRecord(
        ...     round=1,
        ...     seconds=2.0,
        ...     cost=3.0,
        ...     local_steps=4,
        ...     batch_mean=5.0,
        ...     metrics={"accuracy": 0.5},
        ... )
        >>> history = History((first,))
        >>> len(history), history.final, history.columns()["cost"]
        (1, 0.5, [3.0])
    """

    records: tuple[RoundRecord, ...] = ()
    leading_metric: LeadingMetric = ACCURACY

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "RoundRecord | History":
        if isinstance(index, slice):
            return replace(self, records=self.records[index])
        return self.records[index]

    def columns(self) -> dict[str, list[Any]]:
        """Return a list for each field and each metric, with one entry for each round.

        Fields that no round has are left out.
        """
        rows = [record.values() for record in self]
        fields = [name for name in FIELDS if any(name in row for row in rows)]
        columns: dict[str, list[Any]] = {}
        for field in fields:
            names = self.metric_names if field == "metrics" else [field]
            columns |= {name: [record.value(name) for record in self] for name in names}
        return columns

    @property
    def metric_names(self) -> list[str]:
        """The names of all metrics, in the order of the task; the loss is not among them."""
        return list(dict.fromkeys(name for record in self for name in record.metrics or ()))

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

    def last(self, name: str) -> Any:
        """Return the latest value of a field or metric that is not None; None if there is none."""
        values = (record.value(name) for record in reversed(self))
        return next((value for value in values if value is not None), None)

    @property
    def final_metrics(self) -> dict[str, float]:
        """All metrics and the loss at the last evaluation, NaN for those that are not finite.

        It is empty if there was no evaluation.
        """
        last = next((record for record in reversed(self) if record.is_evaluated), None)
        if last is None:
            return {}
        values = {**(last.metrics or {}), "loss": last.loss}
        return {name: math.nan if value is None else value for name, value in values.items()}

    @property
    def final(self) -> float:
        """The leading metric at the last evaluation; NaN if it is not finite or there was none."""
        return self.final_metrics.get(self.leading_metric.name, math.nan)

    @property
    def best(self) -> float:
        """The best value of the leading metric of all evaluations; NaN if there was none."""
        return self.leading_metric.best(record.value(self.leading_metric.name) for record in self)

    @property
    def worst_client(self) -> tuple[int, float] | None:
        """The client with the worst leading metric at the last evaluation, with its value.

        It is None if clients have no test data of their own. A client whose metric is NaN or
        infinite does not count.
        """
        values = self.last("client_metrics") or ()
        known = [(client, value) for client, value in enumerate(values) if value is not None]
        return max(known, key=lambda pair: self.leading_metric.sort_key(pair[1]), default=None)

    @property
    def client_mean(self) -> float | None:
        """The mean of the clients' leading metrics at the last evaluation; None as above."""
        known = [value for value in self.last("client_metrics") or () if value is not None]
        return statistics.fmean(known) if known else None

    @property
    def worst_class(self) -> tuple[str, float] | None:
        """The class of the lowest accuracy at the last evaluation, with that accuracy."""
        accuracies = self.last("class_accuracy") or {}
        known = [(name, accuracy) for name, accuracy in accuracies.items() if accuracy is not None]
        return min(known, key=lambda pair: pair[1], default=None)

    def first_reaching(self, target: float) -> RoundRecord | None:
        """Return the first round whose leading metric is at least as good; None if none is."""
        for record in self:
            value = record.value(self.leading_metric.name)
            if value is not None and self.leading_metric.has_reached(value, target):
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

    The metric that leads is read from the ``run.json`` beside it. Without that file, it is the
    accuracy.

    Raises:
        RunFolderError: A line, or the file ``run.json``, is damaged.
    """
    records = []
    for index, line in enumerate(_whole_lines(_text(path)), start=1):
        record = parse_line(line)
        if record is None:
            raise RunFolderError(f"{path} is damaged: line {index} does not describe a round")
        records.append(record)
    return History(tuple(records), RunFolder(path.parent).leading_metric())


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
    try:
        leading_metric = RunFolder(path.parent).leading_metric()
    except RunFolderError as error:
        leading_metric = ACCURACY
        problems.append(f"{error}; the metric that leads is unknown, and accuracy is assumed")
    return RecoveredHistory(History(records, leading_metric), tuple(problems))


def rounds_so_far(folder: RunFolder) -> tuple[RoundRecord, ...]:
    """Return the rounds of the run in a folder; none if it has not begun."""
    return read_history(folder.history).records if folder.has_rounds else ()


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
