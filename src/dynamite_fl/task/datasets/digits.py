"""The handwritten digits that come with scikit-learn."""

import numpy as np
import torch

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.dataset import Dataset, whole_labels


def load_digits() -> Dataset:
    """Return 1797 images of 8x8 pixels with 16 levels of grey.

    A fifth of them, always the same, is for testing.
    """
    try:
        from sklearn import datasets  # type: ignore[import-untyped]
    except ImportError:
        raise DatasetError(
            "the dataset digits comes with scikit-learn: pip install scikit-learn"
        ) from None
    pixels, labels = datasets.load_digits(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(len(labels))
    cut = len(labels) * 4 // 5
    inputs = torch.from_numpy((pixels[shuffled] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = whole_labels(labels[shuffled])
    return Dataset("digits", inputs[:cut], targets[:cut], inputs[cut:], targets[cut:], classes=10)
