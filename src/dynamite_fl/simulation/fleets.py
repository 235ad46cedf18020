"""The embedded fleets of devices."""

import tomllib
from importlib import resources

import numpy as np

from dynamite_fl._random import random_stream
from dynamite_fl._validate import check_name, check_whole
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import FloatArray
from dynamite_fl.simulation.devices import Devices

FLEETS = ("testbed5", "vm20", "edge100", "phones")

_EDGE_COMPUTING, _EDGE_NETWORK = 2.5, 5.0  # how much faster edge100 is than vm20

_MOST_PHONES = 10_000_000  # whose columns fit into the memory of a laptop


def embedded_fleet(name: str, seed: int = 0, *, clients: int | None = None) -> Devices:
    """Return an embedded fleet by its name.

    - ``testbed5``: a laptop, a desktop and three containers of a workstation in one network.
    - ``vm20``: twenty rented machines far apart, with one, two or four virtual processors.
    - ``edge100``: a hundred machines sampled from ``vm20`` with some variation. They compute 2.5
      times and communicate 5 times as fast, because the paper's limits for 100 clients are so much
      tighter (docs/paper.md).
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
    return Devices(**tomllib.loads(file.read_text(encoding="utf-8")))


def _edge(seed: int, n: int) -> Devices:
    source = _stored("vm20")
    drawn = random_stream(seed, "edge, which").integers(len(source), size=n)

    def varied(key: str, sigma: float, factor: float) -> FloatArray:
        column: FloatArray = getattr(source, key)
        return column[drawn] * _long_tailed(seed, f"edge, {key}", n, factor, sigma)

    return Devices(
        samples_per_second=varied("samples_per_second", 0.05, _EDGE_COMPUTING),
        step_overhead=varied("step_overhead", 0.05, 1 / _EDGE_COMPUTING),
        latency=varied("latency", 0.1, 1 / _EDGE_NETWORK),
        bandwidth=varied("bandwidth", 0.1, _EDGE_NETWORK),
        jitter=source.jitter[drawn],
        comm_jitter=source.comm_jitter[drawn],
        drift=source.drift[drawn],
        name=[f"edge-{client}" for client in range(1, n + 1)],
    )


def _phones(seed: int, n: int) -> Devices:
    check_whole("devices.clients", n, most=_MOST_PHONES)

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
