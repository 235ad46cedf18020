"""Downloads of public files, checked against known checksums and never partial."""

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

from dynamite_fl.errors import DatasetError

# Called with the name of the file, the bytes so far, and the bytes in all or None.
Progress = Callable[[str, int, int | None], None]

_PIECE_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30  # without any answer


@dataclass(frozen=True)
class Source:
    """A public file.

    Attributes:
        file: The name of the file.
        urls: The addresses of the file, in the order in which they are tried.
        sha256: The checksum of the published file.
        members: If the file is an archive, the endings of the names of the members to extract.
    """

    file: str
    urls: tuple[str, ...]
    sha256: str
    members: tuple[str, ...] = ()


def download(source: Source, folder: Path, progress: Progress | None = None) -> None:
    """Download a public file into a folder; of an archive, extract the members.

    Raises:
        DatasetError: No address has the file with the right checksum, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _temporary_file(folder / source.file) as path:
            _fetch(source, path, progress)
            if not source.members:
                path.replace(folder / source.file)
            else:
                _extract(source, path, folder)
    except OSError as error:
        reason = error.strerror or error
        raise DatasetError(f"{source.file} cannot be written to {folder}: {reason}") from None


@contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside a path, and remove the file afterwards."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _fetch(source: Source, path: Path, progress: Progress | None) -> None:
    """Download to a path from the first address that has the right content."""
    failures = []
    for url in source.urls:
        try:
            digest = _save(url, path, source.file, progress)
        except _UnreachableError as error:
            failures.append(f"{url}: {error}")
            continue
        if digest == source.sha256:
            return
        failures.append(f"{url}: its checksum is {digest}, not {source.sha256}")
    tried = "".join(f"\n  {failure}" for failure in failures)
    raise DatasetError(f"{source.file} could not be downloaded{tried}")


class _UnreachableError(Exception):
    """The server did not send the file. Errors on our side are other exceptions."""


def _save(url: str, path: Path, name: str, progress: Progress | None) -> str:
    """Write the content of a URL to a path, and return its SHA-256 checksum."""
    digest = hashlib.sha256()
    done = 0
    try:
        answer = urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)  # noqa: S310  our own URLs
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
        return answer.read(_PIECE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(error) from None


def _extract(source: Source, archive: Path, folder: Path) -> None:
    """Write the members into the folder, under their names without any path."""
    try:
        for name, content in _members(archive, source.members):
            with _temporary_file(folder / name) as temporary:
                temporary.write_bytes(content)
                temporary.replace(folder / name)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{source.file} cannot be unpacked: {error}") from None


def _members(archive: Path, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield the name, without its path, and the content of each member with such an ending."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zip_file:
            for name in zip_file.namelist():
                if name.endswith(endings):
                    yield Path(name).name, zip_file.read(name)
        return
    with tarfile.open(archive) as tar_file:
        for member in tar_file:
            content = tar_file.extractfile(member) if member.name.endswith(endings) else None
            if content is not None:
                yield Path(member.name).name, content.read()
