"""Run folders, read for a report: as much as can be read, with notes about what cannot."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.report.bound_terms import bound_terms
from dynamite_fl.report.contents import DIVERGED, ReportedRun
from dynamite_fl.report.read_job import device_names, setting, stream_buffer_size
from dynamite_fl.training.history import History, RecoveredHistory, recover_history
from dynamite_fl.training.run_folder import RunFolder


@dataclass
class FoundRuns:
    """Runs that can be shown.

    Attributes:
        runs: The runs.
        notes: What the reader should know about runs that are missing or damaged.
        going: Notes on the runs that have not ended.
    """

    runs: list[ReportedRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    going: list[str] = field(default_factory=list)


def find_runs(paths: Iterable[Path]) -> FoundRuns:
    """Read the runs in some folders, each a run folder or the folder of a comparison."""
    found = FoundRuns()
    for path in {path.resolve(): path for path in paths}.values():
        folders = run_folders(path)
        if not folders:
            found.notes.append(_why_no_run(path))
        for folder in folders:
            _read_run(folder, found)
    found.runs = _with_groups(found.runs)
    return found


def _with_groups(runs: Sequence[ReportedRun]) -> list[ReportedRun]:
    """Put runs into groups if two of them have the same contender and seed."""
    if len({(run.contender, run.seed) for run in runs}) == len(runs):
        return list(runs)
    parents = [Path(run.folder).resolve().parent for run in runs]
    groups = _short_names(parents)
    return [replace(run, group=groups[parent]) for run, parent in zip(runs, parents, strict=True)]


def _short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the shortest ends of paths that all differ.

    Example:
        >>> list(_short_names([Path("/monday/trial"), Path("/tuesday/trial")]).values())
        ['monday/trial', 'tuesday/trial']
    """
    names, parts = dict.fromkeys(paths, ""), 0
    while len(set(names.values())) < len(names) or not parts:
        parts += 1
        names = {path: Path(*path.parts[-parts:]).as_posix() for path in names}
    return names


def run_folders(path: Path) -> list[Path]:
    """Return the run folders at a path: itself, or those in it; none if there are none."""
    if _is_run_folder(path):
        return [path]
    if not path.is_dir():
        return []
    return sorted(child for child in path.iterdir() if child.is_dir() and _is_run_folder(child))


def _is_run_folder(path: Path) -> bool:
    folder = RunFolder(path)
    return folder.job.is_file() or folder.history.is_file()


def _why_no_run(path: Path) -> str:
    if not path.exists():
        return f"{path} does not exist"
    return f"{path} holds no run: neither it nor a folder in it has a job.toml or history.jsonl"


def _read_run(path: Path, found: FoundRuns) -> None:
    """Add a run with all that can be read of it."""
    folder, notes = RunFolder(path), found.notes
    job = _read_job(folder, notes)
    recovered = _read_history(folder, notes)
    history = recovered.history
    if not folder.job.is_file() and not history:
        return
    ended = _read_ended(folder, notes)
    if ended == DIVERGED:
        notes.append(f"{path} diverged: {_why_diverged(folder)}")
    elif ended is None:
        after = f"after round {history[-1].round}" if history else "before its first round"
        found.going.append(f"{path} still runs or was interrupted; it is shown {after}")
    tables = {} if job is None else job.tables
    name = path.resolve().name
    seed = _seed_in(name) if job is None else setting(tables, "training", "seed", 0)
    seed = seed if isinstance(seed, int) else 0
    found.runs.append(
        ReportedRun(
            name=name,
            folder=str(path),
            contender=name.removesuffix(f"-{seed}"),  # as ``dynamite compare`` names folders
            controller=str(setting(tables, "controller", "name", "unknown")),
            about=_about(tables, history),
            seed=seed,
            history=history,
            is_complete=not recovered.problems,
            limits=None if job is None else job.limits,
            ended=ended,
            devices=device_names(folder, job),
            job=_job_text(folder),
            command=_command(folder),
            streams="stream" in tables,
            buffer_size=stream_buffer_size(tables),
            bound_terms=_bound_terms(tables, history),
        )
    )


def _read_job(folder: RunFolder, notes: list[str]) -> TrainingJob | None:
    """Return the job; None, with a note, if it is missing or not valid."""
    if not folder.job.is_file():
        notes.append(f"{folder.path} has no {folder.job.name}: its limits are unknown")
        return None
    try:
        job = load_training_job(folder.job)
        _ = job.limits  # refused here, rather than where they are drawn
        return job
    except (InvalidInput, OSError) as error:
        notes.append(f"the job of {folder.path} cannot be used: {error}")
        return None


def _read_history(folder: RunFolder, notes: list[str]) -> RecoveredHistory:
    """Return the rounds that can be read; note what cannot."""
    if not folder.history.is_file():
        problem = f"{folder.path} has no {folder.history.name}: no round can be shown"
        recovered = RecoveredHistory(History(), (problem,))
    else:
        try:
            recovered = recover_history(folder.history)
        except OSError as error:
            problem = f"{folder.history} cannot be read: {error.strerror}"
            recovered = RecoveredHistory(History(), (problem,))
        else:
            problems = tuple(f"{folder.path}: {problem}" for problem in recovered.problems)
            recovered = replace(recovered, problems=problems)
    notes += recovered.problems
    return recovered


def _read_ended(folder: RunFolder, notes: list[str]) -> str | None:
    """Return what ended the run; None if it has not ended."""
    if not folder.ended.is_file():
        return DIVERGED if folder.diverged.is_file() else None
    try:
        return next(iter(read_regular_text(folder.ended).splitlines()), "").strip() or None
    except OSError as error:
        notes.append(f"{folder.ended} cannot be read: {error.strerror}")
        return None


def _why_diverged(folder: RunFolder) -> str:
    try:
        return read_regular_text(folder.diverged).strip()
    except OSError as error:
        return f"{folder.diverged.name} cannot be read: {error.strerror}"


def _job_text(folder: RunFolder) -> str:
    """Return the text of the job file; nothing if it cannot be read, which was noted before."""
    try:
        return read_regular_text(folder.job)
    except OSError:
        return ""


def _seed_in(name: str) -> int:
    """Return the seed at the end of a folder's name; 0 if there is none."""
    match = re.search(r"-(\d+)$", name)
    return 0 if match is None else int(match[1])


def _about(tables: Mapping[str, Any], history: History) -> str:
    """Describe the model, the data and the number of devices."""
    own = setting(tables, "task", "use") or setting(tables, "task", "made_in_python")
    model = own or setting(tables, "task", "model", "a model")
    dataset = setting(tables, "task", "dataset")
    words = f"{model} on {dataset}" if dataset else str(model)
    if "stream" in tables:
        words += ", streaming in"
    clients = {client for record in history for client in record.clients or ()}
    return f"{words}, {len(clients):,} devices" if clients else words


def _command(folder: RunFolder) -> str:
    """Return the command that repeats the run: real machines are served, simulated ones run."""
    if folder.nodes.is_file():
        return "dynamite serve job.toml --name again"
    return "dynamite run job.toml"


def _bound_terms(
    tables: Mapping[str, Any], history: History
) -> Mapping[str, Sequence[float | None]]:
    """Return the terms of the bound, if the controller plans by the paper's bound."""
    rate = setting(tables, "training", "learning_rate")
    if rate is None and history.records:  # it was chosen, and the history has it
        rate = history.records[0].learning_rate
    planned = setting(tables, "controller", "name") == "dynamite"
    if not planned or not isinstance(rate, int | float) or not rate > 0:
        return {}
    return bound_terms(history, rate)
