"""The folder of one training, and what it is of.

``runs/<name>/`` holds the resolved job, the identity of the run, ``history.jsonl`` with a line per
round, the model and the last two checkpoints. A folder is never continued with another job, other
data or an incompatible version: ``job/runs.py`` compares and says what differs. Digests tie the
files together, so that one that was damaged or exchanged is noticed. Nothing here needs PyTorch, so
that reports and ``dynamite show`` open at once.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from dynamite_fl._atomic import TEMPORARY, write_atomically
from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.folder_lock import LOCK_NAME, FolderLock
from dynamite_fl.training.identity import Identity, OtherFormat
from dynamite_fl.training.line_checks import digest

_MOST_HEADER_BYTES = 100_000_000  # the limit of the format safetensors
_MOST_WORDS = 1_000_000  # bytes of a file with a few words


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's files, and what can be read of them without PyTorch."""

    path: Path
    _lock: FolderLock = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lock", FolderLock(self.path))

    def held(self) -> AbstractContextManager[None]:
        """Keep others from writing to the folder, in a context that makes it if need be.

        Raises:
            RunFolderError: Another process is using the folder; the message says which.
        """
        return self._lock.held()

    @property
    def job(self) -> Path:
        """The resolved job."""
        return self.path / "job.toml"

    @property
    def identity(self) -> Path:
        """What the run is of, beside its job."""
        return self.path / "run.json"

    @property
    def history(self) -> Path:
        """One JSON line per round."""
        return self.path / "history.jsonl"

    @property
    def checkpoint(self) -> Path:
        """All that a resume needs, as it was after some round."""
        return self.path / "checkpoint.safetensors"

    @property
    def earlier_checkpoint(self) -> Path:
        """The checkpoint before the last one; the file is missing if there was only one."""
        return self.path / "checkpoint-earlier.safetensors"

    @property
    def model(self) -> Path:
        """The trained weights by their names."""
        return self.path / "model.safetensors"

    @property
    def ended(self) -> Path:
        """What ended the training, with a check; the file is missing while it can go on."""
        return self.path / "ended.txt"

    @property
    def diverged(self) -> Path:
        """Why the training diverged, in a comparison, which does not try it again."""
        return self.path / "diverged.txt"

    @property
    def nodes(self) -> Path:
        """The names of real machines; the file is missing where devices are simulated."""
        return self.path / "nodes.json"

    @property
    def releases(self) -> Path:
        """The number of noisy sums that real machines were asked for, this round included.

        The file is missing without differential privacy, and where devices are simulated.
        """
        return self.path / "releases.txt"

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.job.is_file()

    @property
    def is_free(self) -> bool:
        """Whether a run can begin here: there is no folder, or no more than a kill may leave."""
        if not self.path.exists():
            return True
        names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else [""]
        return all(
            name in (self.identity.name, LOCK_NAME) or name.startswith(TEMPORARY) for name in names
        )

    @property
    def has_rounds(self) -> bool:
        """Whether at least one round of a run was trained here."""
        started = self.checkpoint.exists() or (
            self.history.is_file() and self.history.stat().st_size
        )
        return self.is_run and bool(started)

    @property
    def is_finished(self) -> bool:
        """Whether the run reached its end."""
        return self.ended.is_file()

    def stopped_by(self) -> str | None:
        """Return the limit that ended the training; None while it can go on."""
        lines = self._ended_lines()
        return lines[0] if lines else None

    def write_end(self, limit: str, last_check: str) -> None:
        """Write what ended the training.

        Args:
            limit: The limit.
            last_check: The check of the history's last line.
        """
        write_atomically(self.ended, f"{limit}\n{digest(limit, last_check)}\n")

    def ends_with(self, last_check: str) -> bool:
        """Return whether a finished run ended with a history whose last line has this check."""
        lines = self._ended_lines()
        if len(lines) == 1:  # an older version wrote it
            return self.first_check() is None
        return lines[1] == digest(lines[0], last_check)

    def _ended_lines(self) -> list[str]:
        if not self.is_finished:
            return []
        try:
            return read_regular_text(self.ended, _MOST_WORDS).splitlines()[:2] or [""]
        except OSError as error:
            raise RunFolderError(f"{self.ended} cannot be read: {error.strerror}") from None

    def checkpointed(self) -> tuple[int, str] | None:
        """Return the rounds of the checkpoint and the check of the last of them.

        It is None if there is no checkpoint, or none that can be read; whoever goes on from it
        finds out why.
        """
        try:
            if not self.checkpoint.is_file():  # to open a pipe would mean to wait
                return None
            with self.checkpoint.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(size, _MOST_HEADER_BYTES)))
            about = json.loads(header["__metadata__"]["checked"])["about"]
            return int(about["rounds"]), str(about["history"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def require_run(self) -> None:
        """Refuse a folder in which no run was begun."""
        if not self.is_run:
            raise RunFolderError(f"{self.path} is not a run folder: it has no {self.job.name}")

    def check_files(self) -> None:
        """Refuse a folder in which a file to write is a pipe, a device or a link to nothing."""
        files = (self.history, self.checkpoint, self.earlier_checkpoint, self.model, self.ended)
        for path in files:
            if (path.exists() or path.is_symlink()) and not path.is_file():
                raise RunFolderError(f"{path} is not a regular file: remove it")

    def begin(self, job: str, identity: Identity) -> None:
        """Make the folder, with the job's text and the run's identity.

        The job comes last: a folder without it is not a run, whatever else is in it.

        Raises:
            OutputError: A file cannot be written. What was written is removed.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be made: {error.strerror}") from None
        self.job.unlink(missing_ok=True)  # of a run that trained nothing
        try:
            write_atomically(self.identity, identity.to_text())
            write_atomically(self.job, job)
        except BaseException:
            self.identity.unlink(missing_ok=True)
            raise

    def read_identity(self) -> Identity:
        """Read what the run is of.

        Raises:
            RunFolderError: The file is missing, damaged or of another version.
        """
        try:
            return Identity.from_text(read_regular_text(self.identity, _MOST_WORDS))
        except FileNotFoundError:
            raise RunFolderError(
                f"{self.path} has no {self.identity.name}: an older version of dynamite began this "
                "run, and this one cannot go on with it"
            ) from None
        except OtherFormat as error:
            raise RunFolderError(f"{self.path} {error}") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise RunFolderError(
                f"{self.identity} is damaged: {reason}. Copy it from a backup, or begin anew in "
                "another folder"
            ) from None

    def leading_metric(self) -> LeadingMetric:
        """Read the metric by which the run is judged; accuracy if nothing says so.

        Raises:
            RunFolderError: The file is damaged.
        """
        return self.read_identity().leading_metric if self.identity.exists() else ACCURACY

    def first_check(self) -> str | None:
        """Return the check of the run, which the first line of the history continues, or None.

        It is None if the history is alone in its folder, or of an older format.
        """
        if not self.identity.exists():
            return None
        identity = self.read_identity()
        return identity.run if identity.has_checks else None

    def check_can_go_on(self) -> None:
        """Refuse to go on with a run that a version with another format of files began."""
        try:
            self.read_identity().require_current()
        except OtherFormat as error:
            raise RunFolderError(f"{self.path} {error}") from None

    def check_same_devices(self, *, is_real: bool) -> None:
        """Refuse to simulate what real machines have begun, and the other way round."""
        if self.read_identity().is_real and not is_real:
            raise RunFolderError(
                f"{self.path} is a run on real machines: go on with dynamite serve or cluster, or "
                "where it was begun in Python"
            )
        if is_real and not self.read_identity().is_real:
            raise RunFolderError(
                f"{self.path} is a simulated run: go on with dynamite resume, or choose another "
                "folder for real machines"
            )

    def check_same_metric(self, leading_metric: LeadingMetric) -> None:
        """Refuse to go on with another leading metric than the run began with."""
        known = self.read_identity().leading_metric
        if known != leading_metric:
            raise RunFolderError(
                f"{self.path} was begun with another leading metric ({_in_words(known)} there, "
                f"{_in_words(leading_metric)} here): give the same metrics in the same order, or "
                "begin anew in another folder"
            )

    def check_same_data(self, data: Mapping[str, str]) -> None:
        """Refuse to go on with other data or another model than the run began with.

        Args:
            data: The digests of the data and model at hand, as ``fingerprint`` returns them.
        """
        known = self.read_identity().data
        others = [part for part in known if data.get(part) != known[part]]
        if others:
            raise RunFolderError(
                f"{self.path} was begun with something else: the {' and the '.join(others)} "
                "changed; go on with what it began with, or begin anew in another folder"
            )


def _in_words(metric: LeadingMetric) -> str:
    return f"{metric.name}, {'higher' if metric.higher_is_better else 'lower'} is better"
