"""Get public data: checked against its published checksum, and whole or not there at all."""

import hashlib
import http.client
import os
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dynamite_fl.task.dataset import DatasetError

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known

_PIECE = 1 << 20
_SILENCE = 30  # seconds without an answer before we give up


@dataclass(frozen=True)
class Source:
    """A public file.

    Attributes:
        file: What it is called.
        urls: Where it is, the best place first.
        md5: Its published checksum.
        members: What to take out of it where it is an archive: names that end so.
    """

    file: str
    urls: tuple[str, ...]
    md5: str
    members: tuple[str, ...] = ()


def download(source: Source, folder: Path, progress: Progress | None = None) -> None:
    """Put a public file, or what an archive has of use, into a folder.

    Raises:
        DatasetError: No place had it, its checksum differs, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _unfinished(folder / source.file) as path:
            _fetch(source, path, progress)
            if not source.members:
                path.replace(folder / source.file)
            else:
                _take_out(source, path, folder)
    except OSError as error:
        reason = error.strerror or error
        raise DatasetError(f"{source.file} cannot be written to {folder}: {reason}") from None


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A name beside the path to write to first; whatever is left there is removed."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _fetch(source: Source, path: Path, progress: Progress | None) -> None:
    """Download to the path from the first place that has the right content."""
    failures = []
    for url in source.urls:
        try:
            digest = _save(url, path, source.file, progress)
        except _UnreachableError as error:
            failures.append(f"{url}: {error}")
            continue
        if digest == source.md5:
            return
        failures.append(f"{url}: its checksum is {digest}, not {source.md5}")
    tried = "".join(f"\n  {failure}" for failure in failures)
    raise DatasetError(f"{source.file} could not be downloaded{tried}")


class _UnreachableError(Exception):
    """The other side did not send it; as against what goes wrong on this side."""


def _save(url: str, path: Path, name: str, progress: Progress | None) -> str:
    """Write what a URL holds, and return its MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    done = 0
    try:
        answer = urllib.request.urlopen(url, timeout=_SILENCE)  # noqa: S310  ours, all https
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(error) from None
    length = answer.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    with answer, path.open("wb") as file:
        while piece := _receive(answer):
            file.write(piece)
            digest.update(piece)
            done += len(piece)
            if progress is not None:
                progress(name, done, total)
    return digest.hexdigest()


def _receive(answer: IO[bytes]) -> bytes:
    try:
        return answer.read(_PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(error) from None


def _take_out(source: Source, archive: Path, folder: Path) -> None:
    """Write the members of use into the folder, under their own names without any path."""
    try:
        for name, content in _members(archive, source.members):
            with _unfinished(folder / name) as temporary:
                temporary.write_bytes(content)
                temporary.replace(folder / name)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{source.file} cannot be unpacked: {error}") from None


def _members(archive: Path, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The files of a zip or tar archive that end so: last part of the name, and content."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                if name.endswith(endings):
                    yield Path(name).name, packed.read(name)
        return
    with tarfile.open(archive) as rolled:
        for member in rolled:
            content = rolled.extractfile(member) if member.name.endswith(endings) else None
            if content is not None:
                yield Path(member.name).name, content.read()
