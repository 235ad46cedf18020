"""Fleets of devices: embedded fleets, and fleets from tables and CSV files."""

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dynamite_fl._csv import read_csv
from dynamite_fl._random import random_stream
from dynamite_fl._validate import check_keys, check_name
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import FloatArray
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.traces import read_trace

FLEETS = ("testbed5", "vm20", "edge100", "phones")

_KEYS = [key for key in inspect.signature(Devices).parameters if key != "traces"]
_NEEDED = ["samples_per_second"]
_WORDS = ("name", "trace")  # columns that are not numbers


def embedded_fleet(name: str, seed: int = 0, *, clients: int | None = None) -> Devices:
    """Return an embedded fleet by its name.

    - ``testbed5``: a laptop, a desktop and three containers of a workstation in one network.
    - ``vm20``: twenty rented machines far apart, with one, two or four virtual processors.
    - ``edge100``: a hundred machines sampled from ``vm20`` with some variation.
    - ``phones``: any number of ``clients``, by default 1000. A few are fast, some are very slow,
      and they are often absent.

    The seed determines ``edge100`` and ``phones``.

    Example:
        >>> devices = embedded_fleet("vm20")
        >>> len(devices), devices.label(0)
        (20, 'small-1')
    """
    check_name("fleet", name, FLEETS)
    if name == "phones":
        return _phones(seed, 1000 if clients is None else clients)
    if clients is not None:
        raise InvalidInput(
            f"clients is {clients}, but {name} has a fixed number of devices: leave it out"
        )
    return _edge(seed, 100) if name == "edge100" else _stored(name)


def _stored(name: str) -> Devices:
    file = resources.files("dynamite_fl.simulation") / "embedded" / f"{name}.toml"
    return devices_from_table(tomllib.loads(file.read_text(encoding="utf-8")))


def _edge(seed: int, n: int) -> Devices:
    source = _stored("vm20")
    drawn = random_stream(seed, "edge, which").integers(len(source), size=n)

    def varied(key: str, sigma: float) -> FloatArray:
        column: FloatArray = getattr(source, key)
        return column[drawn] * _long_tailed(seed, f"edge, {key}", n, 1.0, sigma)

    return Devices(
        samples_per_second=varied("samples_per_second", 0.05),
        step_overhead=varied("step_overhead", 0.05),
        latency=varied("latency", 0.1),
        bandwidth=varied("bandwidth", 0.1),
        jitter=source.jitter[drawn],
        comm_jitter=source.comm_jitter[drawn],
        drift=source.drift[drawn],
        name=[f"edge-{client}" for client in range(1, n + 1)],
    )


def _phones(seed: int, n: int) -> Devices:
    if n < 1:
        raise InvalidInput(f"clients is {n}: it must be 1 or more")

    def spread(key: str, median: float, sigma: float) -> FloatArray:
        return _long_tailed(seed, f"phones, {key}", n, median, sigma)

    return Devices(
        samples_per_second=spread("samples_per_second", 60.0, 0.6),
        step_overhead=spread("step_overhead", 0.03, 0.4),
        latency=spread("latency", 0.15, 0.5),
        bandwidth=spread("bandwidth", 1.5e6, 0.9),
        jitter=0.15,
        comm_jitter=0.3,
        drift=0.005,
        availability=random_stream(seed, "phones, availability").uniform(0.4, 0.95, n),
        dropout=random_stream(seed, "phones, dropout").uniform(0.0, 0.06, n),
    )


def _long_tailed(seed: int, purpose: str, n: int, median: float, sigma: float) -> FloatArray:
    return np.asarray(median * np.exp(sigma * random_stream(seed, purpose).standard_normal(n)))


def devices_from_table(table: Mapping[str, Any], folder: Path | None = None) -> Devices:
    """Return the devices in a table whose keys are those of ``Devices``.

    The only difference is that ``trace`` holds the names of CSV files, relative to ``folder`` if it
    is given; "" stands for no trace. A single name stands for every device.

    Example:
        >>> devices_from_table({"samples_per_second": [90, 360], "latency": 0.1}).latency.tolist()
        [0.1, 0.1]
    """
    check_keys("devices", table, _KEYS, _NEEDED)
    columns = dict(table)
    if "trace" in columns:
        columns |= _traces(columns["trace"], folder or Path())
    return Devices(**columns)


def _traces(given: object, folder: Path) -> dict[str, Any]:
    """Read each trace file once, and return the columns ``trace`` and ``traces``."""
    files = [given] if isinstance(given, str) else given
    if not isinstance(files, Sequence) or not all(isinstance(file, str) for file in files):
        raise InvalidInput(
            'Devices.trace must be the name of a CSV file or a list of names; "" is for no trace'
        )
    known = sorted({file for file in files if file})
    place_of = {"": -1, **{file: place for place, file in enumerate(known)}}
    places = [place_of[file] for file in files]
    return {
        "trace": places[0] if isinstance(given, str) else places,
        "traces": [read_trace(folder / file) for file in known],
    }


def read_devices_csv(path: Path) -> Devices:
    """Read devices from a CSV file: a line of column names, then one line per device.

    The columns are the keys of ``devices_from_table``; trace files are relative to the CSV file.
    """
    table = read_csv(path, _KEYS, _NEEDED, _WORDS)
    try:
        return devices_from_table(table, path.parent)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
