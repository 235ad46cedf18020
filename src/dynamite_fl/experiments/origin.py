"""When, and by which state of the program, a run was played."""

import json
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dynamite_fl.engine.run import RunFolder
from dynamite_fl.files import write_atomically

_FILE = "origin.json"
_SECONDS = 10


@dataclass(frozen=True)
class Origin:
    """A state of the program.

    Attributes:
        date: The day, in UTC.
        version: Of the package.
        commit: In a checkout, its commit, with ``+`` if files were changed since; else empty.
    """

    date: str
    version: str
    commit: str


def here_and_now() -> Origin:
    """Today, and the program that is running."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return Origin(today, version("dynamite-fl"), _commit(Path(__file__).parent))


def _commit(folder: Path) -> str:
    """What git says of a folder; nothing if it is in no checkout, or there is no git."""
    commit = _git(folder, "rev-parse", "--short=10", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", str(folder.parent))
    tracked = _git(folder, "ls-files", "--", str(folder))
    if not commit or not tracked:
        return ""
    return commit + ("+" if changed else "")


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  git, on our own folder
            ["git", "-C", str(folder), *words],  # noqa: S607  whichever the user has
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def record(folder: Path, origin: Origin) -> None:
    """Note in a run's folder that it is played, or gone on with, by this state.

    Who was noted before but left no checkpoint has no part in it: the run begins anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = read(folder) if RunFolder(folder).checkpoint.exists() else []
    if origin not in before:
        found: list[dict[str, Any]] = [asdict(each) for each in [*before, origin]]
        write_atomically(folder / _FILE, json.dumps(found) + "\n")


def read(folder: Path) -> list[Origin]:
    """By which states a run was played, the first first."""
    file = folder / _FILE
    if not file.is_file():
        return []
    return [Origin(**each) for each in json.loads(file.read_text(encoding="utf-8"))]
