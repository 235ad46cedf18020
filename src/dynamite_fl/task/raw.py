"""Data files, plain or gzipped, and what is wrong with them."""

import gzip
import zlib
from pathlib import Path

from dynamite_fl.task.dataset import Bytes, DatasetError


def read_bytes(path: Path) -> bytes:
    """What a file holds; one whose name ends in ``.gz`` is unpacked.

    Raises:
        DatasetError: It cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise corrupt(path, f"it cannot be unpacked ({error})") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from None


def check_labels(path: Path, labels: Bytes, classes: int) -> None:
    """Refuse a file without labels, or with one that no class has."""
    if not labels.size:
        raise corrupt(path, "it is empty")
    if labels.max() >= classes:
        raise corrupt(path, f"it has a label {labels.max()}, but the largest is {classes - 1}")


def corrupt(path: Path, reason: str) -> DatasetError:
    """An error that names the file and says what to do about it."""
    return DatasetError(f"{path} is damaged: {reason}. Delete it and get it anew")
