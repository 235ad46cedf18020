"""A training's history: one JSON object a round, one a line.

Everything a person looks at is made from this file.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True, eq=False)
class History:
    """The rounds that were played, oldest first.

    Example:
        >>> history = History(({"round": 1, "accuracy": 0.5}, {"round": 2, "accuracy": None}))
        >>> history.columns()["accuracy"], history.best_accuracy
        ([0.5, None], 0.5)
    """

    lines: tuple[Line, ...]

    def __len__(self) -> int:
        return len(self.lines)

    def columns(self) -> dict[str, list[Any]]:
        """Lists of equal length, as ``pandas.DataFrame`` takes them."""
        keys = dict.fromkeys(key for line in self.lines for key in line)
        return {key: [line.get(key) for line in self.lines] for key in keys}

    def last(self, key: str) -> Any:
        """What the last line that has such a value says; None if none has."""
        return next((line[key] for line in reversed(self.lines) if line.get(key) is not None), None)

    @property
    def final_accuracy(self) -> float:
        """At the last evaluation; NaN if there was none."""
        found = self.last("accuracy")
        return math.nan if found is None else float(found)

    @property
    def worst_class(self) -> tuple[str, float] | None:
        """The class of the least accuracy at the last evaluation, and that; None without any."""
        found = self.last("class_accuracy") or {}
        known = [each for each in found.items() if each[1] is not None]
        return min(known, key=lambda each: each[1], default=None)

    @property
    def best_accuracy(self) -> float:
        """At the best evaluation; NaN if there was none."""
        seen = [line["accuracy"] for line in self.lines if line["accuracy"] is not None]
        return max(seen, default=math.nan)

    def first_reaching(self, accuracy: float) -> Line | None:
        """The first round whose model is at least so good; None if none is."""
        for line in self.lines:
            if line["accuracy"] is not None and line["accuracy"] >= accuracy:
                return line
        return None


def to_line(values: Mapping[str, Any]) -> str:
    """A round as a line of the file; what JSON has no number for becomes null."""
    return json.dumps({key: _plain(value) for key, value in values.items()}, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def read_history(path: Path) -> History:
    """The history in a file; a last line that is cut off is passed over."""
    return History(tuple(_whole_lines(path.read_text(encoding="utf-8").splitlines(keepends=True))))


def _whole_lines(lines: Iterable[str]) -> Iterable[Line]:
    for text in lines:
        if text.endswith("\n"):
            yield json.loads(text)
