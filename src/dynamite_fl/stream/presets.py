"""The streams of the paper's experiments by name (Table II), for its three datasets."""

from typing import Any

from dynamite_fl._validate import check_name, check_number

_TRAINING_SAMPLES = {"mnist": 60000, "cifar10": 50000}
_SMOOTH = {"arrivals": "smooth", "initial": 5000, "size": 5000, "every": 100, "buffer_size": 10000}
_MNIST: dict[str, dict[str, Any]] = {
    "smooth-i": {"order": "balanced", **_SMOOTH},
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
_CIFAR10: dict[str, dict[str, Any]] = {
    "smooth-i": {**_MNIST["smooth-i"], "size": 3000},
    "smooth-c": {**_MNIST["smooth-c"], "size": 3000},
    "burst": {**_MNIST["burst"], "initial": 25000, "size": 25000, "at": 1000},
    "random": _MNIST["random"],
}
PRESETS = tuple(_MNIST)
_SCALED = ("initial", "size", "every", "at", "buffer_size", "max_samples")


def preset(name: str, dataset: str = "mnist", scale: float = 1.0) -> dict[str, Any]:
    """Return the settings of one of the paper's streams, as fields of ``Stream``.

    Args:
        name: One of ``PRESETS``.
        dataset: The name of the dataset. ``cifar10`` has settings of its own. All others have
            those of MNIST and EMNIST.
        scale: The factor of both samples and rounds, above 0 and at most 1. With 0.1, a training
            of a tenth of the rounds receives a tenth of the samples at the same relative times.

    Example:
        >>> small = preset("smooth-c", "mnist", scale=0.1)
        >>> [small[key] for key in ("initial", "size", "every", "buffer_size", "max_samples")]
        [500, 500, 10, 1000, 6000]
    """
    check_name("stream.preset", name, PRESETS)
    check_number("stream.scale", scale, positive=True, largest=1)
    is_cifar10 = dataset == "cifar10"
    settings = {
        **(_CIFAR10 if is_cifar10 else _MNIST)[name],
        "max_samples": _TRAINING_SAMPLES["cifar10" if is_cifar10 else "mnist"],
    }
    scaled = {key: max(1, round(scale * settings[key])) for key in _SCALED if key in settings}
    return {**settings, **scaled}
