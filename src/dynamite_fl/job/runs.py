"""A run folder and its job: begin a run in a folder, or check that it holds the same run."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynamite_fl._csv import read_text
from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.errors import JobError, RunFolderError
from dynamite_fl.job.read import differences, to_toml
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.line_checks import digest
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import server_table

# Keys of the table ``training`` that do not change the result, so they may differ in a resume.
_WITHOUT_EFFECT = ("workers", "track")
_MOST_SHOWN = 5  # the largest number of differences that a message lists


def open_run(
    folder: RunFolder,
    job: TrainingJob,
    data: Mapping[str, str],
    leading_metric: LeadingMetric = ACCURACY,
    *,
    is_real: bool = False,
) -> None:
    """Begin a run in a folder, or check that the run in the folder is the same.

    Args:
        folder: The run's folder.
        job: The job to run.
        data: The digests of the task's data and model, as ``fingerprint`` returns them.
        leading_metric: The metric by which the run is judged.
        is_real: Whether the devices are real machines.

    Raises:
        RunFolderError: The folder holds another run; the message says what differs.
    """
    if not folder.has_rounds:  # a run that trained nothing may be begun anew with another job
        module_folders = tuple(str(path) for path in job.folders)
        text = to_toml(job.tables)
        identity = Identity(
            data,
            module_folders,
            leading_metric,
            job_digest(tomllib.loads(text)),
            is_real=is_real,
            default_server=_default_server(job),
        )
        _forget_other_run(folder, identity)
        folder.begin(text, identity)
        return
    folder.check_can_go_on()
    folder.check_same_devices(is_real=is_real)
    check_same_job(folder, job)
    _check_same_server(folder, job)
    folder.check_same_data(data)
    folder.check_same_metric(leading_metric)


def _forget_other_run(folder: RunFolder, identity: Identity) -> None:
    """Remove what a run of another job has left in a folder before it trained anything."""
    try:
        is_same = folder.read_identity().run == identity.run
    except RunFolderError:  # nothing was begun here, or it is not known what
        return
    if not is_same:
        folder.nodes.unlink(missing_ok=True)
        folder.releases.unlink(missing_ok=True)


@contextmanager
def opened_run(
    folder: RunFolder, job: TrainingJob, data: Mapping[str, str], leading_metric: LeadingMetric
) -> Iterator[None]:
    """Open a run on real machines, and keep others from using its folder in the context.

    Raises:
        RunFolderError: The folder holds another run, or another process is using it.
    """
    with folder.held():
        open_run(folder, job, data, leading_metric, is_real=True)
        yield


def check_same_job(folder: RunFolder, job: TrainingJob) -> None:
    """Check that the run in a folder has the same job.

    Raises:
        RunFolderError: The folder holds a run of another job; the message says what differs.
    """
    refuse_other_tables(folder.path, load_run(folder).tables, job, "choose another folder")


def refuse_other_tables(
    path: Path, tables: Mapping[str, Any], job: TrainingJob, advice: str
) -> None:
    """Check that the tables of a run that was found are those of a job.

    Args:
        path: Where the run was found.
        tables: The tables of the job that it was made by.
        job: The job that it should be of.
        advice: What to do if it is not.

    Raises:
        RunFolderError: The run is of another job; the message says what differs.
    """
    given = tomllib.loads(to_toml(job.tables))
    different = differences(_with_effect(tables), _with_effect(given))
    if different:
        more = len(different) - _MOST_SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise RunFolderError(
            f"{path} holds a run of another job ({'; '.join(different[:_MOST_SHOWN])}{rest}): "
            f"{advice}"
        )


def _default_server(job: TrainingJob) -> str:
    """Return the name of the server optimiser that a job leaves out; empty for the average."""
    name = str(server_table(job.server)["name"])
    return "" if name == "average" or "server" in job.tables else name


def _check_same_server(folder: RunFolder, job: TrainingJob) -> None:
    """Refuse to go on with another default of the server optimiser than the run began with."""
    begun, now = folder.read_identity().default_server, _default_server(job)
    if begun and begun != now:
        raise RunFolderError(
            f"{folder.path} was begun by a version whose server optimiser was {begun} by default "
            f"(now {now or 'average'}): go on with that version, or begin anew in another folder"
        )


def load_run(folder: RunFolder) -> TrainingJob:
    """Read the job of the run in a folder.

    Raises:
        RunFolderError: The folder holds no run, or its files cannot be used.
    """
    folder.require_run()
    identity = folder.read_identity()
    try:
        job = load_training_job(folder.job, folders=[Path(path) for path in identity.folders])
        changed = identity.job and identity.job != job_digest(tomllib.loads(read_text(folder.job)))
    except JobError as error:
        raise RunFolderError(f"{folder.job} cannot be used: {error}") from None
    if changed:
        raise RunFolderError(
            f"{folder.job} was changed after the run began: copy it from a backup, or begin anew "
            "in another folder"
        )
    return job


def job_digest(tables: Mapping[str, Any]) -> str:
    """Return a digest of what has an effect in a resolved job.

    Args:
        tables: The tables, as they are in a job file.
    """
    return digest(json.dumps(_with_effect(tables), sort_keys=True, default=str))


def load_job_file(path: Path | None, overrides: Sequence[str] = ()) -> TrainingJob:
    """Load a job file, or the embedded job if there is none.

    If the file is in a run folder, the user's own modules are looked for in the same folders as for
    that run. The nodes of ``dynamite cluster`` load the job of their run in this way.
    """
    folder = None if path is None else RunFolder(path.parent)
    if folder is None or not folder.identity.is_file():
        return load_training_job(path, overrides)
    folders = [Path(name) for name in folder.read_identity().folders]
    return load_training_job(path, overrides, folders)


def _with_effect(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's tables without the keys that do not change the result."""
    training = {
        key: value for key, value in tables["training"].items() if key not in _WITHOUT_EFFECT
    }
    others = {name: table for name, table in tables.items() if name != "geometry"}
    return {**others, "training": training}
