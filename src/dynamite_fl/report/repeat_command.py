"""The command that repeats runs, and whether they are runs of one job."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.names import SERVERS, method_of, rates_in
from dynamite_fl.compare.summary import FEDAVG
from dynamite_fl.compare.tuning import is_trial, tuned_methods
from dynamite_fl.report.contents import Repeat, ReportedRun
from dynamite_fl.report.read_job import setting

_Tables = Mapping[str, Any]


def job_differences(runs: Sequence[ReportedRun]) -> list[str]:
    """Return a note if jobs differ in more than what contenders have of their own."""
    read = [(run, tables) for run in runs if (tables := _tables(run))]
    plain = next((tables for run, tables in read if not _own_keys(run)), {})
    jobs = [_shared_part(tables, _own_keys(run), plain) for run, tables in read]
    keys = {key for job in jobs for key in job if job[key] != jobs[0].get(key)}
    keys |= {key for job in jobs for key in jobs[0] if key not in job}
    if not keys:
        return []
    names = ", ".join(sorted(keys))
    return [f"these runs are not of one job: they differ in {names}, so compare with care"]


def how_to_repeat(runs: Sequence[ReportedRun]) -> Repeat:
    """Return the command that repeats all runs if there is one, else one for a single run."""
    tables = {run.folder: _tables(run) for run in runs}
    contenders = [run for run in runs if FixedSetting.from_name(run.contender) is None]
    contenders = contenders or list(runs)
    searched = tuned_methods(contenders)
    named = [run for run in contenders if not is_trial(run, searched)] or contenders
    with_settings = {
        run.title: run for run in named if _has_settings(tables[run.folder].get("controller"))
    }
    shown = next(iter(with_settings.values()), named[0])
    seeds = {run.seed for run in contenders}
    if job_differences(runs) or len(with_settings) > 1 or shown.seed != min(seeds):
        return Repeat(shown.command, shown.job, shown.name)
    words = ["dynamite compare job.toml"]
    words.append("--controllers " + _comma_list(map(_requested, named)))
    if any("+" in run.contender for run in contenders):
        buffers = (setting(tables[run.folder], "stream", "buffer", "") for run in contenders)
        words.append("--buffers " + _comma_list(buffers))
    words.append(f"--seeds {len(seeds)}")
    has_hindsight = len(contenders) < len(runs)
    tuned = [method for _, method in sorted(searched) if method != FEDAVG or not has_hindsight]
    if tuned and named is not contenders:
        words.append("--tune " + _comma_list(tuned))
    if has_hindsight:
        words.append("--hindsight")
    return Repeat(" ".join(words), shown.job, shown.name)


def _requested(run: ReportedRun) -> str:
    """Return what a contender is called in the option ``--controllers``."""
    method, rates = method_of(run.contender), rates_in(run.contender)
    name = method if method in SERVERS else run.controller
    return f"{name}@{rates}" if rates else name


def _has_settings(controller: object) -> bool:
    """Check whether a controller has more than its name."""
    return isinstance(controller, Mapping) and len(controller) > 1


def _tables(run: ReportedRun) -> _Tables:
    try:
        return tomllib.loads(run.job)
    except tomllib.TOMLDecodeError:
        return {}


def _own_keys(run: ReportedRun) -> list[tuple[str, str]]:
    """Return what a contender has of its own beside its controller, as tables and keys."""
    keys = [("training", "learning_rate")] if rates_in(run.contender) else []
    return [*keys, *([("server", "")] if method_of(run.contender) in SERVERS else [])]


def _shared_part(tables: _Tables, own: Sequence[tuple[str, str]], plain: _Tables) -> dict[str, Any]:
    """Return what runs of one comparison share: all but controller, seed, buffer and own keys.

    Args:
        tables: The tables of a job.
        own: The keys that its contender has of its own.
        plain: The tables of a contender that has nothing of its own, whose values are taken.
    """
    shared = {key: value for key, value in tables.items() if key != "controller"}
    for table, key in (("training", "seed"), ("stream", "buffer"), *own):
        if not key:
            shared.pop(table, None)
        elif isinstance(shared.get(table), Mapping):
            shared[table] = {k: value for k, value in shared[table].items() if k != key}
    for table, key in own:
        if not key and table in plain:
            shared[table] = plain[table]
        elif isinstance(plain.get(table), Mapping) and key in plain[table]:
            shared[table] = {**shared.get(table, {}), key: plain[table][key]}
    return shared


def _comma_list(words: Iterable[object]) -> str:
    return ",".join(dict.fromkeys(map(str, words)))
