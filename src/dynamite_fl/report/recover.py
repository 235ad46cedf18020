"""What can be read of a history that may be cut off, damaged or of an older version."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynamite_fl.report.history import History, Line

_MOST = sys.float_info.max


def _is_number(value: object) -> bool:
    """Whether it is one that a float can hold; NaN compares as neither more nor less."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_MOST <= value <= _MOST


def _is_known(value: object) -> bool:
    return value is None or _is_number(value)


def _is_places(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_known, value))


def _is_figures(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_known, value.values()))


_NEEDED = ("round", "seconds", "cost", "local_steps", "batch_mean")
_OPTIONAL: dict[str, Callable[[object], bool]] = {
    "accuracy": _is_known,
    "loss": _is_known,
    "stream_loss": _is_known,
    "bound": _is_known,
    "round_seconds": _is_known,
    "sent_bytes": _is_known,
    "batch_least": _is_known,
    "batch_most": _is_known,
    "slowest": _is_known,
    "refused": _is_known,
    "absent": _is_places,
    "clients": _is_places,
    "class_accuracy": _is_figures,
    "estimates": _is_figures,
}
_OF_CLIENTS = ("batch_sizes", "step_seconds", "comm_seconds", "arrived")


def recover(path: Path) -> tuple[History, list[str]]:
    """The rounds that can be read, and what is wrong with the file, in words."""
    lines: list[Line] = []
    unreadable: list[int] = []
    texts = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    cut_off = bool(texts) and not texts[-1].endswith("\n")
    for number, text in enumerate(texts[:-1] if cut_off else texts, start=1):
        line = _line(text)
        if line is None:
            unreadable.append(number)
        else:
            lines.append(line)
    wrong = ["its history is cut off in the middle of its last line"] if cut_off else []
    if unreadable:
        first = f"line {unreadable[0]}" + (" and others" if len(unreadable) > 1 else "")
        wrong.append(
            f"{len(unreadable)} of the {len(texts)} lines of its history make no sense, "
            f"{first}: they are left out"
        )
    return History(tuple(lines)), wrong


def _line(text: str) -> Line | None:
    """A round with what is sound of it; None if that is too little."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(_is_number(found.get(key)) for key in _NEEDED):
        return None
    line: Line = {key: found[key] for key in _NEEDED}
    line |= {
        key: found[key]
        for key, is_sound in _OPTIONAL.items()
        if key in found and is_sound(found[key])
    }
    clients = line.get("clients")
    line |= {key: found[key] for key in _OF_CLIENTS if _matches(found.get(key), clients)}
    return {"accuracy": None, "loss": None, "absent": [], "estimates": {}} | line


def _matches(column: Any, clients: Any) -> bool:
    return clients is not None and _is_numbers(column) and len(column) == len(clients)
