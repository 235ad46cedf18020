"""The paper's streams by name, for its three datasets (Table II), whole or scaled."""

from collections.abc import Mapping
from typing import Any

_SMOOTH = {"arrivals": "smooth", "initial": 5000, "size": 5000, "every": 100, "buffer_size": 10000}
_MNIST: dict[str, dict[str, Any]] = {
    "smooth-i": {"order": "iid", **_SMOOTH},
    "smooth-c": {"order": "continuous", **_SMOOTH},
    "burst": {
        "order": "continuous",
        "arrivals": "burst",
        "initial": 10000,
        "size": 50000,
        "at": 500,
        "buffer_size": 25000,
    },
    "random": {
        "order": "continuous",
        "arrivals": "random",
        "initial": 10000,
        "size": 40000,
        "times": 5,
        "buffer_size": 10000,
    },
}
_CIFAR: dict[str, dict[str, Any]] = {
    "smooth-i": {**_MNIST["smooth-i"], "size": 3000},
    "smooth-c": {**_MNIST["smooth-c"], "size": 3000},
    "burst": {**_MNIST["burst"], "initial": 25000, "size": 25000, "at": 1000},
    "random": _MNIST["random"],
}
PRESETS = tuple(_MNIST)
_SCALED = ("initial", "size", "every", "at", "buffer_size")


def preset(name: str, dataset: str, scale: float = 1.0) -> Mapping[str, Any]:
    """A stream's settings.

    Args:
        name: One of ``PRESETS``.
        dataset: ``cifar10`` has its own; all others take those of MNIST and EMNIST.
        scale: Of samples and rounds together, so that a training of a tenth of the rounds sees a
            tenth of the samples, as early and as late.

    Example:
        >>> small = preset("smooth-c", "mnist", scale=0.1)
        >>> small["initial"], small["size"], small["every"], small["buffer_size"], small["part"]
        (500, 500, 10, 1000, 0.1)
    """
    if name not in PRESETS:
        raise ValueError(f"the stream's preset is {name!r}: use one of {', '.join(PRESETS)}")
    if not 0 < scale <= 1:
        raise ValueError(f"the stream's scale is {scale!r}: it must be above 0 and at most 1")
    found = (_CIFAR if dataset == "cifar10" else _MNIST)[name]
    scaled = {key: max(1, round(scale * found[key])) for key in _SCALED if key in found}
    return {**found, **scaled, "part": scale}
