"""A training job: what to train on which devices within which limits, from TOML.

The tables are ``task``, ``limits``, ``devices``, ``partition``, ``stream``, ``controller``,
``optimizer``, ``server``, ``averaging``, ``privacy`` and ``training``; ``geometry`` is for planning
alone. This module reads and checks them, and ``settings.py`` has the table ``training``.
``build.py`` makes what they describe.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamite_fl.errors import InvalidInput, JobError
from dynamite_fl.job.devices import resolve_devices
from dynamite_fl.job.read import Tables, check_tables, read_tables, table_record
from dynamite_fl.job.settings import Settings
from dynamite_fl.records import Limits
from dynamite_fl.training.averaging import Averaging, averaging_table, make_averaging
from dynamite_fl.training.privacy import Privacy
from dynamite_fl.training.server_optimizer import (
    Average,
    Extrapolation,
    ServerOptimizer,
    make_server,
    server_table,
)

NEEDED_TABLES = ("task", "limits")
OPTIONAL_TABLES = (
    "devices",
    "partition",
    "stream",
    "controller",
    "optimizer",
    "server",
    "averaging",
    "privacy",
    "geometry",  # for ``dynamite plan``; a training estimates it
    "training",
)
DEFAULT_CONTROLLER = "dynamite-feedback"
DEFAULT_DEVICES = "vm20"
DEFAULT_OPTIMIZER = "SGD"
_EXAMPLES = {
    "controller": "fedavg",
    "optimizer": "AdamW",
    "server": "fedadam",
    "averaging": "median",
}
DEFAULT_PARTITION = {"kind": "wang", "case": 1}  # the same kind of data for every client


@dataclass(frozen=True)
class TrainingJob:
    """A training job, resolved: it names no file and lacks no table that is needed.

    Attributes:
        tables: All tables, with overrides and defaults applied. A run folder keeps them.
        folders: The folders in which modules of the user's own are looked for.
    """

    tables: Mapping[str, Any]
    folders: tuple[Path, ...] = ()

    @property
    def limits(self) -> Limits:
        """What training may use."""
        return table_record(Limits, "limits", self.tables["limits"])

    @property
    def settings(self) -> Settings:
        """The table ``training``."""
        return table_record(Settings, "training", self.tables["training"])

    @property
    def trackers(self) -> tuple[str, ...]:
        """The trackers that record each round."""
        return tuple(dict.fromkeys(self.settings.track))

    @property
    def controller_name(self) -> str:
        """The controller's name, or its ``module:Class``."""
        return str(self.tables["controller"]["name"])

    @property
    def server(self) -> ServerOptimizer:
        """The server optimiser.

        Default: ``extrapolation`` if our default controller chooses the learning rate, otherwise
        the plain average. Chosen rates are stable for each client. Where data differs, the average
        can go further.
        """
        table = self.tables.get("server")
        if table is not None:
            return make_server(**table)
        is_chosen = self.settings.learning_rate is None
        is_default = self.controller_name == DEFAULT_CONTROLLER
        return Extrapolation() if is_chosen and is_default else Average()

    @property
    def averaging(self) -> Averaging | None:
        """How local models are averaged; None for the default of the engine."""
        table = self.tables.get("averaging")
        return None if table is None else make_averaging(**table)

    @property
    def privacy(self) -> Privacy | None:
        """The settings of differential privacy; None without it."""
        table = self.tables.get("privacy")
        return None if table is None else table_record(Privacy, "privacy", table)

    def with_tables(self, **tables: Any) -> "TrainingJob":
        """Return the job with some tables replaced."""
        return TrainingJob({**self.tables, **tables}, self.folders)


def load_training_job(
    path: Path | None = None, overrides: Iterable[str] = (), folders: Sequence[Path] = ()
) -> TrainingJob:
    """Load the job in a file, or the embedded one, with overrides such as ``limits.deadline=50``.

    Args:
        path: The TOML file. Default: the embedded job.
        overrides: Keys to replace, each as ``table.key=value``.
        folders: More folders in which modules of the user's own are looked for.

    Raises:
        JobError: The job cannot be used; the message says what to change.

    Example:
        >>> job = load_training_job(overrides=["limits.deadline=50"])
        >>> job.limits.deadline, job.controller_name
        (50, 'dynamite-feedback')
    """
    folder = Path() if path is None else path.parent
    tables = resolve_tables(read_tables(path, "training.toml", overrides), folder)
    return TrainingJob(tables, (folder.resolve(), *folders))


def resolve_tables(tables: Tables, folder: Path) -> Tables:
    """Check a job's tables, add those that were left out, and replace files by what they hold."""
    check_tables(tables, NEEDED_TABLES, OPTIONAL_TABLES)

    def entry(name: str, default: Any) -> Any:
        return default if tables.get(name) is None else tables[name]

    settings = table_record(Settings, "training", _table("training", entry("training", {})))
    limits = table_record(Limits, "limits", _table("limits", tables["limits"]))
    resolved = {
        "task": _task(tables["task"]),
        "partition": _table("partition", entry("partition", DEFAULT_PARTITION)),
        "devices": resolve_devices(entry("devices", DEFAULT_DEVICES), folder, settings.seed),
        "limits": _without_none(asdict(limits)),
        "controller": _named("controller", entry("controller", DEFAULT_CONTROLLER)),
        "optimizer": _named("optimizer", entry("optimizer", DEFAULT_OPTIMIZER)),
        "training": _without_none({**asdict(settings), "track": list(settings.track)}),
    }
    if tables.get("server") is not None:
        resolved["server"] = _server(tables["server"])
    if tables.get("averaging") is not None:
        resolved["averaging"] = _averaging(tables["averaging"])
    for name in ("stream", "geometry"):
        if tables.get(name) is not None:
            resolved[name] = _table(name, tables[name])
    if tables.get("privacy") is not None:
        privacy = table_record(Privacy, "privacy", _table("privacy", tables["privacy"]))
        resolved["privacy"] = _without_none(asdict(privacy))
    return resolved


def _table(name: str, entry: object) -> Tables:
    if not isinstance(entry, Mapping):
        raise JobError(f"{name} must be a table of keys")
    return _without_none(entry)


def _without_none(table: Mapping[str, Any]) -> Tables:
    """Leave out keys that ``--set KEY=none`` removed; TOML has no value for them."""
    return {key: value for key, value in table.items() if value is not None}


def _task(entry: object) -> Tables:
    """Read the entry ``task``: a table, or the short form ``module:function``."""
    return {"use": entry} if isinstance(entry, str) else _table("task", entry)


def _named(name: str, entry: object) -> Tables:
    """Read an entry such as ``controller``: a table with a name, or just the name."""
    table = {"name": entry} if isinstance(entry, str) else _table(name, entry)
    if not isinstance(table.get("name"), str):
        example = _EXAMPLES[name]
        raise JobError(f'{name} needs a name: {name} = "{example}", or [{name}] name = ...')
    return table


def _server(entry: object) -> Tables:
    """Read the entry ``server``: a table with a name, or just the name. Add all its settings."""
    try:
        return server_table(make_server(**_named("server", entry)))
    except InvalidInput as error:
        raise JobError(str(error)) from None


def _averaging(entry: object) -> Tables:
    """Read the entry ``averaging``, likewise."""
    try:
        return averaging_table(make_averaging(**_named("averaging", entry)))
    except InvalidInput as error:
        raise JobError(str(error)) from None
