"""The folder of one training, and what it is of.

``runs/<name>/`` holds the resolved job, the identity of the run, ``history.jsonl`` with a line per
round, the model and a checkpoint. A folder is never continued with another job, other data or an
incompatible version: ``job/runs.py`` compares and says what differs. Nothing here needs PyTorch, so
that reports and ``dynamite show`` open at once.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dynamite_fl._atomic import write_atomically
from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.folder_lock import FolderLock

FORMAT = 2  # of the files in a run folder; it rises when an older version could not go on


@dataclass(frozen=True)
class Identity:
    """What a run is of, beside its job.

    Attributes:
        data: The digests of the training data, the test data and the model, by these names.
        folders: The folders in which modules of the user's own are looked for.
        leading_metric: The metric by which the run is judged.
        format: The format of the folder's files.
        version: The version of this package that began the run.
    """

    data: Mapping[str, str]
    folders: tuple[str, ...] = ()
    leading_metric: LeadingMetric = ACCURACY
    format: int = FORMAT
    version: str = version("dynamite-fl")


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
    def model(self) -> Path:
        """The trained weights by their names."""
        return self.path / "model.safetensors"

    @property
    def ended(self) -> Path:
        """The limit that ended the training; the file is missing while it can go on."""
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
        return self.ended.read_text(encoding="utf-8").strip() if self.is_finished else None

    def require_run(self) -> None:
        """Refuse a folder in which no run was begun."""
        if not self.is_run:
            raise RunFolderError(f"{self.path} is not a run folder: it has no {self.job.name}")

    def begin(self, job: str, identity: Identity) -> None:
        """Make the folder, with the job's text and the run's identity.

        The job comes last: a folder without it is not a run, whatever else is in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be made: {error.strerror}") from None
        write_atomically(self.identity, json.dumps(asdict(identity)) + "\n")
        write_atomically(self.job, job)

    def read_identity(self) -> Identity:
        """Read what the run is of.

        Raises:
            RunFolderError: The file is missing, damaged or of another version.
        """
        try:
            found = json.loads(self.identity.read_text(encoding="utf-8"))
            if not all(isinstance(path, str) for path in list(found["folders"])):
                raise TypeError("a folder is not text")
            converted = {
                "folders": tuple(found["folders"]),
                "data": dict(found["data"]),
                "leading_metric": _leading_metric(found),
            }
            identity = Identity(**{**found, **converted})
        except FileNotFoundError:
            raise RunFolderError(
                f"{self.path} has no {self.identity.name}: an older version of dynamite began this "
                "run, and this one cannot go on with it"
            ) from None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunFolderError(f"{self.identity} is damaged: {error}") from None
        if identity.format != FORMAT:
            raise RunFolderError(
                f"{self.path} was begun by dynamite {identity.version}, whose files have format "
                f"{identity.format}; this is {version('dynamite-fl')} with format {FORMAT}: go on "
                "with that version, or begin anew in another folder"
            )
        return identity

    def leading_metric(self) -> LeadingMetric:
        """Read the metric by which the run is judged; accuracy if nothing says so.

        Raises:
            RunFolderError: The file is damaged.
        """
        try:
            return _leading_metric(json.loads(self.identity.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ACCURACY
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise RunFolderError(f"{self.identity} is damaged: {error}") from None

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


def _leading_metric(identity: Any) -> LeadingMetric:
    """Return the leading metric in the content of a ``run.json``; older ones have none."""
    if not isinstance(identity, dict):
        raise TypeError("it is not a table")
    if "leading_metric" not in identity:
        return ACCURACY
    metric = LeadingMetric(**identity["leading_metric"])
    if not isinstance(metric.name, str) or not isinstance(metric.higher_is_better, bool):
        raise TypeError("leading_metric has no name and direction")
    return metric


def _in_words(metric: LeadingMetric) -> str:
    return f"{metric.name}, {'higher' if metric.higher_is_better else 'lower'} is better"
