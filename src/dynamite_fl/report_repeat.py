"""How runs that are shown side by side differ, and how to run them all again."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from dynamite_fl.report.shown import Repeat, ShownRun

FIXED = re.compile(r"fixed-\d+x\d+")  # what hindsight calls the contenders that it tries

_Tables = Mapping[str, Any]


def differences(runs: Sequence[ShownRun]) -> list[str]:
    """A note if jobs differ in more than what a comparison varies."""
    jobs = [_common(tables) for run in runs if (tables := _tables(run))]
    keys = {key for job in jobs for key in job if job[key] != jobs[0].get(key)}
    keys |= {key for job in jobs for key in jobs[0] if key not in job}
    if not keys:
        return []
    names = ", ".join(sorted(keys))
    return [f"these runs are not of one job: they differ in {names} too, so compare with care"]


def how_to_repeat(runs: Sequence[ShownRun]) -> Repeat:
    """The command that plays all of them, where one does; else the one for the first."""
    tables = {run.folder: _tables(run) for run in runs}
    own = [run for run in runs if not FIXED.fullmatch(run.contender)] or list(runs)
    settled = {run.title: run for run in own if len(_controller(tables[run.folder])) > 1}
    shown = next(iter(settled.values()), own[0])
    words = ["dynamite compare job.toml"]
    words.append("--controllers " + _list(run.controller for run in own))
    buffers = _list(_buffer(tables[run.folder]) for run in own)
    if any("+" in run.contender for run in own):
        words.append(f"--buffers {buffers}")
    seeds = {run.seed for run in own}
    words.append(f"--seeds {len(seeds)}")
    if len(own) < len(runs):
        words.append("--hindsight")
    if differences(runs) or len(settled) > 1 or shown.seed != min(seeds):
        return Repeat(shown.command, shown.job, shown.name)
    return Repeat(" ".join(words), shown.job, shown.name)


def _tables(run: ShownRun) -> _Tables:
    try:
        return tomllib.loads(run.job)
    except tomllib.TOMLDecodeError:
        return {}


def _common(tables: _Tables) -> dict[str, Any]:
    """What runs of one comparison share: all but controller, seed and buffer."""
    found = {key: value for key, value in tables.items() if key != "controller"}
    for table, key in (("training", "seed"), ("stream", "buffer")):
        if isinstance(found.get(table), Mapping):
            found[table] = {k: value for k, value in found[table].items() if k != key}
    return found


def _controller(tables: _Tables) -> _Tables:
    entry = tables.get("controller")
    return entry if isinstance(entry, Mapping) else {}


def _buffer(tables: _Tables) -> str:
    entry = tables.get("stream")
    return str(entry.get("buffer", "")) if isinstance(entry, Mapping) else ""


def _list(words: Any) -> str:
    return ",".join(dict.fromkeys(words))
