"""The folders in which data may be, and a search for files in them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dynamite_fl.errors import DatasetError


def cache_folder() -> Path:
    """Return the folder for downloads: ``dynamite-fl`` in the user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "dynamite-fl"


def data_folders(data_dir: Path | None) -> list[Path]:
    """Return the folders to search: the given one, DYNAMITE_DATA and the cache folder."""
    named = os.environ.get("DYNAMITE_DATA")
    folders = [data_dir, Path(named) if named else None, cache_folder()]
    return list(dict.fromkeys(folder for folder in folders if folder is not None))


class FileSearch:
    """A search for a set of files, each plain or gzipped.

    Args:
        folders: The data folders.
        layouts: The subfolders that may hold the files, such as ``mnist`` or ``MNIST/raw``.
    """

    def __init__(self, folders: Sequence[Path], layouts: Sequence[str]) -> None:
        self.places = [folder / layout for folder in folders for layout in layouts]

    def find(self, names: Sequence[str]) -> list[Path] | None:
        """Return the files from the first folder that has them all; None if no folder does."""
        for place in self.places:
            paths = [path for name in names for path in _present(place, name)]
            if len(paths) == len(names):
                return paths
        return None

    def missing(self, names: Sequence[str], advice: str) -> DatasetError:
        """Return an error that names a missing file, the folders searched, and what to do."""
        fullest = max(
            self.places, key=lambda place: sum(1 for n in names for _ in _present(place, n))
        )
        absent = next(name for name in names if not list(_present(fullest, name)))
        searched = "".join(f"\n  {place}" for place in self.places)
        return DatasetError(f"{absent} (or {absent}.gz) was not found in{searched}\n{advice}")


def _present(place: Path, name: str) -> Iterator[Path]:
    """Yield the path of a file in a folder, plain or gzipped, if it is there."""
    for path in (place / name, place / f"{name}.gz"):
        if path.is_file():
            yield path
            return
