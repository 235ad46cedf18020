"""Small data files, written byte by byte as their formats say."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.integer]


def idx_bytes(array: Array) -> bytes:
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_images(
    folder: Path, labels: Array, *, parts: tuple[str, str] = ("train", "t10k"), suffix: str = ""
) -> Array:
    """Write idx files, the same for training and testing, and return their images."""
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 28, 28))
    for part in parts:
        write(folder / f"{part}-images-idx3-ubyte{suffix}", idx_bytes(images))
        write(folder / f"{part}-labels-idx1-ubyte{suffix}", idx_bytes(labels))
    return images


def cifar_pickle(pixels: Array, labels: list[int]) -> bytes:
    """Return a batch like the published ones, pickled by today's Python and NumPy."""
    batch = {b"data": pixels.astype(np.uint8), b"labels": labels}
    return pickle.dumps(batch, protocol=4)


def write_cifar(folder: Path, *, binary: bool = False) -> tuple[Array, Array]:
    """Write five training batches and a test batch of two images; return the training data."""
    random = np.random.default_rng(1)
    pixels, labels = random.integers(0, 256, (12, 3072)), random.integers(0, 10, 12)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for row, name in enumerate(names):
        some = slice(2 * row, 2 * row + 2)
        if binary:
            rows = np.column_stack([labels[some], pixels[some]]).astype(np.uint8)
            write(folder / f"{name}.bin", rows.tobytes())
        else:
            write(folder / name, cifar_pickle(pixels[some], labels[some].tolist()))
    return pixels[:10].reshape(-1, 3, 32, 32), labels[:10]
