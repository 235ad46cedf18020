"""The history of a training: one record for each round, kept as one line of JSON each.

Everything that a person sees of a training is computed from it.
"""

import importlib
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import MissingExtra, RunFolderError
from dynamite_fl.training.history_file import (
    read_lines,
    what_is_missing,
    whole_lines,
    wrong_lines,
)
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
        RunFolderError: A line, or the file ``run.json``, is damaged, or the lines are not those of
            the run.
    """
    folder = RunFolder(path.parent)
    saved = folder.checkpointed()  # before the history, which may grow meanwhile
    lines = read_lines(path)
    records = list(_sound_records(path, lines))
    for number in wrong_lines(lines, folder)[:1]:
        raise RunFolderError(
            f"{path} is damaged: line {number} was changed or doubled, or is of another run. Copy "
            "it from a backup, or see what is left of it with dynamite report"
        )
    missing = what_is_missing(lines, folder, saved)
    if missing is not None:
        raise RunFolderError(
            f"{path} is damaged: {missing}. Copy it from a backup, or see what is left of it with "
            "dynamite report"
        )
    return History(tuple(records), folder.leading_metric())


def _sound_records(path: Path, lines: Sequence[str]) -> Iterator[RoundRecord]:
    for index, line in enumerate(lines, start=1):
        record = parse_line(line)
        if record is None:
            raise RunFolderError(f"{path} is damaged: line {index} does not describe a round")
        yield record


def recover_history(path: Path) -> RecoveredHistory:
    """Return what can be read of the history in a file, and what cannot."""
    folder = RunFolder(path.parent)
    saved = folder.checkpointed()  # before the history, which may grow meanwhile
    text = read_regular_text(path)
    lines = whole_lines(text)
    parsed = [parse_line(line) for line in lines]
    damaged = [index for index, record in enumerate(parsed, start=1) if record is None]
    problems = []
    is_cut = bool(text) and not text.endswith("\n")
    if is_cut:
        problems.append("the history is cut off in the middle of its last line")
    if damaged:
        problems.append(_left_out(damaged, lines, "do not describe a round"))
    leading_metric, wrong = ACCURACY, list[int]()
    try:
        leading_metric = folder.leading_metric()
        wrong = [number for number in wrong_lines(lines, folder) if number not in damaged]
        missing = what_is_missing(lines, folder, saved)
    except RunFolderError as error:
        problems.append(f"{error}; the metric that leads is unknown, and accuracy is assumed")
        missing = None
    if wrong:
        words = "were changed or doubled, or are of another run,"
        problems.append(_left_out(wrong, lines, words))
    if missing is not None and not (damaged or wrong or is_cut):
        problems.append(f"the history is damaged: {missing}")
    records = tuple(
        record
        for number, record in enumerate(parsed, start=1)
        if record is not None and number not in wrong
    )
    return RecoveredHistory(History(records, leading_metric), tuple(problems))


def _left_out(numbers: Sequence[int], lines: Sequence[str], words: str) -> str:
    """Say that lines are left out of a history, and why."""
    if len(numbers) == 1:
        for plural, singular in (("do", "does"), ("were", "was"), ("are", "is")):
            words = re.sub(rf"\b{plural}\b", singular, words)
    verb, others = ("is", "") if len(numbers) == 1 else ("are", " and others")
    return (
        f"{len(numbers)} of the {len(lines)} lines of the history {words} and {verb} left out: "
        f"line {numbers[0]}{others}"
    )


def rounds_so_far(folder: RunFolder) -> tuple[RoundRecord, ...]:
    """Return the rounds of the run in a folder; none if it has not begun."""
    return read_history(folder.history).records if folder.has_rounds else ()
