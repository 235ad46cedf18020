"""The paper's streams by name, for its three datasets (Table II), whole or scaled."""

from collections.abc import Mapping
from typing import Any

from dynamite_fl.stream.checks import is_number

_IMAGES = {"mnist": 60000, "cifar10": 50000}  # that reach a client in the end
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
_SCALED = ("initial", "size", "every", "at", "buffer_size", "most")


def preset(name: str, dataset: str, scale: float = 1.0) -> Mapping[str, Any]:
    """A stream's settings.

    Args:
        name: One of ``PRESETS``.
        dataset: ``cifar10`` has its own; all others take those of MNIST and EMNIST.
        scale: Of samples and rounds together, so that a training of a tenth of the rounds sees a
            tenth of the samples, as early and as late. A client with fewer sees all it has.

    Example:
        >>> small = preset("smooth-c", "mnist", scale=0.1)
        >>> small["initial"], small["size"], small["every"], small["buffer_size"], small["most"]
        (500, 500, 10, 1000, 6000)
    """
    if name not in PRESETS:
        raise ValueError(f"the stream's preset is {name!r}: use one of {', '.join(PRESETS)}")
    if not is_number(scale) or not 0 < scale <= 1:
        raise ValueError(f"the stream's scale is {scale!r}: it must be above 0 and at most 1")
    if dataset == "cifar10":
        found = {**_CIFAR[name], "most": _IMAGES["cifar10"]}
    else:
        found = {**_MNIST[name], "most": _IMAGES["mnist"]}
    scaled = {key: max(1, round(scale * found[key])) for key in _SCALED if key in found}
    return {**found, **scaled}
