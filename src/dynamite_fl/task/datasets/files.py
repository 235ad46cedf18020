"""Reading data files, plain or gzipped, and refusing damaged ones."""

import gzip
import zlib
from pathlib import Path

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.dataset import Bytes


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; a file whose name ends in ``.gz`` is unpacked.

    Raises:
        DatasetError: The file cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, f"it cannot be unpacked ({error})") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from None


def check_labels(path: Path, labels: Bytes, classes: int) -> None:
    """Refuse a file without labels, or with a label that is not below the number of classes."""
    if not labels.size:
        raise damaged(path, "it is empty")
    if labels.max() >= classes:
        raise damaged(path, f"it has a label {labels.max()}, but the largest is {classes - 1}")


def damaged(path: Path, reason: str) -> DatasetError:
    """Return an error that names a damaged file and says what to do about it."""
    return DatasetError(f"{path} is damaged: {reason}. Delete it and download it again")
