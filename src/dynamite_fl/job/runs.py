"""A run folder and its job: begin a run, or make sure that a folder holds this very run."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamite_fl.errors import JobError, RunFolderError
from dynamite_fl.job.read import differences, to_toml
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.training.run_folder import Identity, RunFolder

# Keys of the table ``training`` that change no result, so that a run may go on with others.
_WITHOUT_EFFECT = ("workers", "track")
_MOST_SHOWN = 5  # differences that a message lists


def open_run(folder: RunFolder, job: TrainingJob, data: str) -> None:
    """Begin a run in a folder; if the folder holds one, make sure that it is the same.

    Args:
        folder: The run's folder.
        job: The job to run.
        data: The fingerprint of the task's data and model.

    Raises:
        RunFolderError: The folder holds another run; the message says what differs.
    """
    if not folder.is_run:
        names = tuple(str(each) for each in job.folders)
        folder.begin(to_toml(job.tables), Identity(data, names))
        return
    check_same_job(folder, job)
    folder.check_same_data(data)


def check_same_job(folder: RunFolder, job: TrainingJob) -> None:
    """Refuse to go on in a folder that holds a run of another job.

    Raises:
        RunFolderError: It does; the message says what differs.
    """
    there, here = load_run(folder).tables, tomllib.loads(to_toml(job.tables))
    different = differences(_that_matter(there), _that_matter(here))
    if different:
        more = len(different) - _MOST_SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise RunFolderError(
            f"{folder.path} holds a run of another job ({'; '.join(different[:_MOST_SHOWN])}"
            f"{rest}): choose another folder"
        )


def load_run(folder: RunFolder) -> TrainingJob:
    """Read the job that a folder holds a run of.

    Raises:
        RunFolderError: There is no run, or its files cannot be used.
    """
    folder.require_run()
    identity = folder.read_identity()
    try:
        return load_training_job(folder.job, folders=[Path(each) for each in identity.folders])
    except JobError as error:
        raise RunFolderError(f"{folder.job} cannot be used: {error}") from None


def load_job_file(path: Path | None, overrides: Sequence[str] = ()) -> TrainingJob:
    """Load a job file; if it lies in a run folder, modules are looked for where the run does.

    The nodes of a cluster read the job of the run that they take part in.
    """
    folder = None if path is None else RunFolder(path.parent)
    if folder is None or not folder.identity.is_file():
        return load_training_job(path, overrides)
    folders = [Path(each) for each in folder.read_identity().folders]
    return load_training_job(path, overrides, folders)


def _that_matter(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out keys that change no result."""
    training = {k: v for k, v in tables["training"].items() if k not in _WITHOUT_EFFECT}
    return {**tables, "training": training}
