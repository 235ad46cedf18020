"""Serving a training to nodes, which is what ``dynamite serve`` does."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dynamite_fl.errors import RunFolderError
from dynamite_fl.flower.keys import ServerKeys
from dynamite_fl.flower.plain_text import plain
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.job.runs import check_same_job, load_run
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.tracking.track import check_installed
from dynamite_fl.training.run_folder import RunFolder

LOG_NAME = "nodes.log"
_LONGEST_LINE = 1000


def open_job(folder: RunFolder, job_file: Path | None, overrides: Sequence[str]) -> TrainingJob:
    """Return the job of a run folder; if no run was begun there, that of the job file.

    Raises:
        JobError: The job cannot be used.
        RunFolderError: The folder holds a run of another job.
        MissingExtra: An optional dependency that the job needs is not installed.
    """
    if not folder.has_rounds:
        job = load_training_job(job_file, overrides)
        check_installed(job.trackers)
        return job
    if job_file is not None or overrides:
        check_same_job(folder, load_training_job(job_file, overrides))
    return load_run(folder)


@contextmanager
def open_superlink(
    folder: RunFolder, host: str, port: int, keys: ServerKeys | None
) -> Iterator[SuperLink]:
    """Open a SuperLink, and log to ``nodes.log`` in the run folder which nodes come and go."""
    with SuperLink(host, port, keys) as link, _logging_to(folder.path / LOG_NAME):
        yield link


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Write what this package logs to a file."""
    if path.exists() and not path.is_file():  # to open a pipe would mean to wait
        raise RunFolderError(f"{path} is not a regular file: remove it")
    handler = _LogFile(path)
    handler.setFormatter(_OneLine("%(asctime)s %(message)s"))
    logger = logging.getLogger("dynamite_fl")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


class _LogFile(logging.FileHandler):
    """A log that loses its lines while the disk is full, and says nothing on the screen."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  as in logging
        """Leave out a line that cannot be written."""


class _OneLine(logging.Formatter):
    """Writes each message as one line of limited length, whatever nodes have sent."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  as in logging
        """Return the line of a record."""
        record.message = plain(record.message, _LONGEST_LINE)
        return super().formatMessage(record)
