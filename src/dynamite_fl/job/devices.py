"""The entry ``devices`` of a training job: a fleet's name, a CSV file or a table of columns."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamite_fl._csv import read_csv
from dynamite_fl._validate import check_keys, check_name, check_whole
from dynamite_fl.errors import InvalidInput, JobError
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.fleets import FLEETS, embedded_fleet
from dynamite_fl.simulation.traces import Trace, read_trace_columns

_COLUMNS = list(inspect.signature(Devices).parameters)
_CSV_COLUMNS = [name for name in _COLUMNS if name != "traces"]
_NEEDED = ["samples_per_second"]
_WORDS = ("name", "trace")  # columns of a CSV file that do not hold numbers


def resolve_devices(entry: object, folder: Path, seed: int = 0) -> Any:
    """Replace the names of files by what the files hold.

    A run that goes on later then has the devices that it began with, whatever became of the files.

    Args:
        entry: The entry as a job has it.
        folder: The folder that names of files are relative to.
        seed: The seed of embedded fleets that are drawn at random.

    Returns:
        The name of an embedded fleet, or a table with all columns written out.
    """
    if isinstance(entry, str):
        if not entry.endswith(".csv"):
            check_name("fleet", entry, FLEETS)
            return entry
        path = folder / entry
        entry = _with_traces(read_csv(path, _CSV_COLUMNS, _NEEDED, _WORDS), path.parent)
    elif not isinstance(entry, Mapping):
        raise JobError(f"devices must be a table, a CSV file or one of {', '.join(FLEETS)}")
    if "fleet" in entry or set(entry) == {"clients"}:
        return dict(entry)
    return devices_table(build_devices(_with_traces(entry, folder), seed))


def build_devices(entry: Any, seed: int) -> Devices:
    """Make the devices that a resolved entry describes.

    Args:
        entry: The entry, after ``resolve_devices``.
        seed: The seed of embedded fleets that are drawn at random.

    Example:
        >>> build_devices({"samples_per_second": [90, 360], "latency": 0.1}, seed=0).latency
        array([0.1, 0.1])
    """
    if isinstance(entry, str):
        return embedded_fleet(entry, seed)
    if set(entry) == {"clients"}:
        raise JobError(
            "devices has a number of clients only, which is enough for real machines: to simulate "
            "them, give their speeds"
        )
    if "fleet" in entry:
        check_keys("devices", entry, ["fleet", "clients"], ["fleet"])
        return embedded_fleet(entry["fleet"], seed, clients=entry.get("clients"))
    check_keys("devices", entry, _COLUMNS, _NEEDED)
    traces = entry.get("traces", [])
    if not isinstance(traces, list):
        raise JobError("devices.traces must be a list of tables with seconds and mbps")
    try:
        return Devices(**{**entry, "traces": [_trace(table) for table in traces]})
    except InvalidInput as error:
        raise JobError(str(error).replace("Devices.", "devices.")) from None


def count_devices(entry: Any, seed: int) -> int:
    """Return how many devices a resolved entry describes.

    For real machines, whose speeds are measured, an entry may say just that: ``{ clients = 5 }``.
    """
    if isinstance(entry, Mapping) and set(entry) == {"clients"}:
        check_whole("devices.clients", entry["clients"])
        return int(entry["clients"])
    return len(build_devices(entry, seed))


def devices_table(devices: Devices) -> dict[str, Any]:
    """Write devices as a resolved entry."""
    columns = {name: getattr(devices, name) for name in _COLUMNS if name not in ("name", "traces")}
    table: dict[str, Any] = {name: values.tolist() for name, values in columns.items()}
    if devices.name is not None:
        table["name"] = list(devices.name)
    table["traces"] = [
        {"seconds": trace.seconds.tolist(), "mbps": trace.mbps.tolist()} for trace in devices.traces
    ]
    return table


def _with_traces(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Put the measurements of trace files into the table, each file once."""
    files = table.get("trace")
    names = [files] if isinstance(files, str) else files
    if names is None or "traces" in table:
        return dict(table)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise JobError('devices.trace must be the name of a CSV file or a list of them; "" is none')
    known = sorted({name for name in names if name})
    places = [known.index(name) if name else -1 for name in names]
    return {
        **table,
        "trace": places[0] if isinstance(files, str) else places,
        "traces": [read_trace_columns(folder / name) for name in known],
    }


def _trace(table: object) -> Trace:
    if not isinstance(table, Mapping):
        raise JobError("devices.traces must be a list of tables with seconds and mbps")
    check_keys("devices.traces", table, ["seconds", "mbps"], ["seconds", "mbps"])
    return Trace(seconds=table["seconds"], mbps=table["mbps"])
