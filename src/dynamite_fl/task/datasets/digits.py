"""The handwritten digits that come with scikit-learn."""

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.dataset import Dataset, whole_labels


def load_digits() -> Dataset:
    """Return 1797 images of 8x8 pixels with 16 levels of grey.

    A fifth of them, always the same, is for testing.
    """
    pixels, labels = _read_digits()
    shuffled = np.random.default_rng(0).permutation(len(labels))
    cut = len(labels) * 4 // 5
    inputs = torch.from_numpy((pixels[shuffled] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = whole_labels(labels[shuffled])
    return Dataset("digits", inputs[:cut], targets[:cut], inputs[cut:], targets[cut:], classes=10)


@cache  # reading takes longer than a round, and a comparison reads for every run
def _read_digits() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the pixels (1797, 64) and the labels (1797,), which must not be changed."""
    try:
        from sklearn import datasets  # type: ignore[import-untyped]
    except ImportError:
        raise DatasetError(
            "the dataset digits comes with scikit-learn: pip install scikit-learn"
        ) from None
    pixels, labels = datasets.load_digits(return_X_y=True)
    return pixels, labels
