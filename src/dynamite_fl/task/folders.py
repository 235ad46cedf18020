"""Where data may be, and which files of it are there."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dynamite_fl.task.dataset import DatasetError


def cache_folder() -> Path:
    """Where downloads go: ``dynamite-fl`` in the user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "dynamite-fl"


def data_folders(data_dir: Path | None) -> list[Path]:
    """Where to look, in this order: the folder given, DYNAMITE_DATA, the cache folder."""
    named = os.environ.get("DYNAMITE_DATA")
    folders = [data_dir, Path(named) if named else None, cache_folder()]
    return list(dict.fromkeys(folder for folder in folders if folder is not None))


class Search:
    """A look through folders for a set of files, each plain or gzipped.

    Args:
        folders: The data folders.
        layouts: Where in a data folder the files may be, such as ``mnist`` or ``MNIST/raw``.
    """

    def __init__(self, folders: Sequence[Path], layouts: Sequence[str]) -> None:
        self.places = [folder / layout for folder in folders for layout in layouts]

    def find(self, names: Sequence[str]) -> list[Path] | None:
        """The files, if one place has them all."""
        for place in self.places:
            found = [path for name in names for path in _present(place, name)]
            if len(found) == len(names):
                return found
        return None

    def missing(self, names: Sequence[str], advice: str) -> DatasetError:
        """An error that names a file, all places where it was looked for, and what to do."""
        fullest = max(
            self.places, key=lambda place: sum(1 for n in names for _ in _present(place, n))
        )
        absent = next(name for name in names if not list(_present(fullest, name)))
        looked = "".join(f"\n  {place}" for place in self.places)
        return DatasetError(f"{absent} (or {absent}.gz) was not found in{looked}\n{advice}")


def _present(place: Path, name: str) -> Iterator[Path]:
    """The file in this place: one path, or none."""
    for path in (place / name, place / f"{name}.gz"):
        if path.is_file():
            yield path
            return
