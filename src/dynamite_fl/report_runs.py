"""Run folders, read for a report: as much as can be, and in words what cannot."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynamite_fl.bound_terms import bound_terms
from dynamite_fl.engine.run import RunFolder
from dynamite_fl.report.history import History
from dynamite_fl.report.recover import recover
from dynamite_fl.report.shown import ShownRun
from dynamite_fl.run_config import (
    TrainingJob,
    devices_of,
    limits_of,
    load_training_job,
)
from dynamite_fl.stream_config import stream_settings


@dataclass
class Found:
    """Runs that can be shown, and what the reader should know."""

    runs: list[ShownRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_runs(paths: Iterable[Path]) -> Found:
    """The runs in folders: each is one of a run, or of a comparison with runs in it."""
    found = Found()
    for path in {path.resolve(): path for path in paths}.values():
        folders = _run_folders(path)
        if not folders:
            found.notes.append(_why_not(path))
        for folder in folders:
            _read(folder, found)
    found.runs = _told_apart(found.runs)
    return found


def _told_apart(runs: Sequence[ShownRun]) -> list[ShownRun]:
    """In groups, if there are contenders of the same name and seed, as of two comparisons."""
    if len({(run.contender, run.seed) for run in runs}) == len(runs):
        return list(runs)
    above = [Path(run.folder).resolve().parent for run in runs]
    groups = _short_names(above)
    return [replace(run, group=groups[path]) for run, path in zip(runs, above, strict=True)]


def _short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """As few of the last parts of paths as tell them all apart.

    Example:
        >>> list(_short_names([Path("/monday/trial"), Path("/tuesday/trial")]).values())
        ['monday/trial', 'tuesday/trial']
    """
    found, parts = dict.fromkeys(paths, ""), 0
    while len(set(found.values())) < len(found) or not parts:
        parts += 1
        found = {path: Path(*path.parts[-parts:]).as_posix() for path in found}
    return found


def _run_folders(path: Path) -> list[Path]:
    if _is_run(path):
        return [path]
    if not path.is_dir():
        return []
    return sorted(each for each in path.iterdir() if each.is_dir() and _is_run(each))


def _is_run(path: Path) -> bool:
    folder = RunFolder(path)
    return folder.job.is_file() or folder.history.is_file()


def _why_not(path: Path) -> str:
    if not path.exists():
        return f"{path} is not there"
    return f"{path} holds no run: there is no job.toml and no history.jsonl in it or just below it"


def _read(path: Path, found: Found) -> None:
    """Add a run with what can be read of it."""
    folder, notes = RunFolder(path), found.notes
    job = _job(folder, notes)
    history, is_whole = _history(folder, notes)
    if not folder.job.is_file() and not history.lines:
        return
    ended = _ended(folder, notes)
    if ended is None:
        after = f"after round {history.lines[-1]['round']}" if history.lines else "before a round"
        notes.append(f"{path} is still going, or was interrupted: it is shown as of now, {after}")
    tables = {} if job is None else job.tables
    controller = str(_within(tables, "controller", "name", "unknown"))
    name = path.resolve().name
    seed = _seed(name) if job is None else _within(tables, "training", "seed", 0)
    seed = seed if isinstance(seed, int) else 0
    dataset = str(_within(tables, "task", "dataset", ""))
    streams = "stream" in tables
    found.runs.append(
        ShownRun(
            name=name,
            folder=str(path),
            contender=name.removesuffix(f"-{seed}"),  # as ``dynamite compare`` names folders
            controller=controller,
            about=_about(tables, history),
            seed=seed,
            history=history,
            is_whole=is_whole,
            limits=None if job is None else limits_of(job),
            ended=ended,
            devices=_devices(folder, job),
            job=_job_text(folder),
            command=_command(folder),
            stored=_stored(tables["stream"], dataset) if streams else None,
            streams=streams,
            terms=_terms(controller, tables, history),
        )
    )


def _job(folder: RunFolder, notes: list[str]) -> TrainingJob | None:
    """The job if it is sound."""
    if not folder.job.is_file():
        notes.append(f"{folder.path} has no {folder.job.name}: its limits are not known")
        return None
    try:
        job = load_training_job(folder.job)
        limits_of(job)
    except (ValueError, OSError) as error:
        notes.append(f"the job of {folder.path} cannot be used: {error}")
        return None
    return job


def _history(folder: RunFolder, notes: list[str]) -> tuple[History, bool]:
    """The rounds that can be read, and whether they are all that the file should hold."""
    if not folder.history.is_file():
        notes.append(f"{folder.path} has no {folder.history.name}: no round can be shown")
        return History(()), False
    try:
        history, wrong = recover(folder.history)
    except OSError as error:
        notes.append(f"{folder.history} cannot be read: {error.strerror}")
        return History(()), False
    notes += [f"{folder.path}: {each}" for each in wrong]
    return history, not wrong


def _ended(folder: RunFolder, notes: list[str]) -> str | None:
    """What ended the run; None if nothing says so."""
    if not folder.ended.is_file():
        return None
    try:
        return _text(folder.ended).strip() or None
    except OSError as error:
        notes.append(f"{folder.ended} cannot be read: {error.strerror}")
        return None


def _job_text(folder: RunFolder) -> str:
    """The job file as it is; nothing where it cannot be read, which ``_job`` has noted."""
    try:
        return _text(folder.job)
    except OSError:
        return ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _within(tables: Mapping[str, Any], table: str, key: str, otherwise: Any) -> Any:
    entry = tables.get(table)
    return entry.get(key, otherwise) if isinstance(entry, Mapping) else otherwise


def _seed(name: str) -> int:
    """The seed in the name of a comparison's folder; 0 if there is none."""
    found = re.search(r"-(\d+)$", name)
    return 0 if found is None else int(found[1])


def _about(tables: Mapping[str, Any], history: History) -> str:
    task = tables.get("task")
    model = task if isinstance(task, str) else _within(tables, "task", "model", "a model")
    dataset = _within(tables, "task", "dataset", None)
    words = f"{model} on {dataset}" if dataset else str(model)
    if "stream" in tables:
        words += ", streaming in"
    places = {client for line in history.lines for client in line.get("clients", ())}
    return f"{words}, {len(places):,} devices" if places else words


def _devices(folder: RunFolder, job: TrainingJob | None) -> Sequence[str]:
    """Names of real machines, or of the job's devices; none where they cannot be found."""
    if folder.nodes.is_file():
        try:
            return [str(name) for name in json.loads(_text(folder.nodes))["names"]]
        except (OSError, ValueError, TypeError, KeyError):
            return ()
    if job is None:
        return ()
    try:
        devices = devices_of(job)
    except (ValueError, OSError):
        return ()
    return [devices.label(place) for place in range(len(devices))]


def _command(folder: RunFolder) -> str:
    """Real machines are served, simulated ones run."""
    if folder.nodes.is_file():
        return "dynamite serve job.toml --name again"
    return "dynamite run job.toml"


def _stored(table: Any, dataset: str) -> float | None:
    """The most samples that a device stores; None for no limit."""
    try:
        settings = stream_settings(table, dataset)
    except (ValueError, TypeError):
        return None
    return None if settings.buffer == "unbounded" else settings.buffer_size


def _terms(
    controller: str, tables: Mapping[str, Any], history: History
) -> Mapping[str, Sequence[float | None]]:
    """Of the controller whose bound is the paper's."""
    rate = _within(tables, "training", "learning_rate", None)
    if controller != "dynamite" or not isinstance(rate, int | float) or not rate > 0:
        return {}
    return bound_terms(history, rate)
