"""The command that repeats runs, and whether they are runs of one job."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.report.contents import Repeat, ReportedRun
from dynamite_fl.report.read_job import setting

_Tables = Mapping[str, Any]


def job_differences(runs: Sequence[ReportedRun]) -> list[str]:
    """Return a note if jobs differ in more than the controller, the seed and the buffer."""
    jobs = [_shared_part(tables) for run in runs if (tables := _tables(run))]
    keys = {key for job in jobs for key in job if job[key] != jobs[0].get(key)}
    keys |= {key for job in jobs for key in jobs[0] if key not in job}
    if not keys:
        return []
    names = ", ".join(sorted(keys))
    return [f"these runs are not of one job: they also differ in {names}, so compare with care"]


def how_to_repeat(runs: Sequence[ReportedRun]) -> Repeat:
    """Return the command that repeats all runs if there is one, else one for a single run."""
    tables = {run.folder: _tables(run) for run in runs}
    contenders = [run for run in runs if FixedSetting.from_name(run.contender) is None]
    contenders = contenders or list(runs)
    with_settings = {
        run.title: run for run in contenders if _has_settings(tables[run.folder].get("controller"))
    }
    shown = next(iter(with_settings.values()), contenders[0])
    seeds = {run.seed for run in contenders}
    if job_differences(runs) or len(with_settings) > 1 or shown.seed != min(seeds):
        return Repeat(shown.command, shown.job, shown.name)
    words = ["dynamite compare job.toml"]
    words.append("--controllers " + _comma_list(run.controller for run in contenders))
    if any("+" in run.contender for run in contenders):
        buffers = (setting(tables[run.folder], "stream", "buffer", "") for run in contenders)
        words.append("--buffers " + _comma_list(buffers))
    words.append(f"--seeds {len(seeds)}")
    if len(contenders) < len(runs):
        words.append("--hindsight")
    return Repeat(" ".join(words), shown.job, shown.name)


def _has_settings(controller: object) -> bool:
    """Check whether a controller has more than its name."""
    return isinstance(controller, Mapping) and len(controller) > 1


def _tables(run: ReportedRun) -> _Tables:
    try:
        return tomllib.loads(run.job)
    except tomllib.TOMLDecodeError:
        return {}


def _shared_part(tables: _Tables) -> dict[str, Any]:
    """Return what runs of one comparison share: all but controller, seed and buffer."""
    shared = {key: value for key, value in tables.items() if key != "controller"}
    for table, key in (("training", "seed"), ("stream", "buffer")):
        if isinstance(shared.get(table), Mapping):
            shared[table] = {k: value for k, value in shared[table].items() if k != key}
    return shared


def _comma_list(words: Iterable[object]) -> str:
    return ",".join(dict.fromkeys(map(str, words)))
