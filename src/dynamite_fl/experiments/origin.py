"""The date and the state of the program with which a run was made."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl.training.run_folder import RunFolder

_FILE = "origin.json"
_GIT_SECONDS = 10


@dataclass(frozen=True, order=True)
class Origin:
    """A date and a state of the program.

    Attributes:
        date: The day, in UTC.
        version: The version of the package.
        commit: The commit of the checkout, with ``+`` if files were changed since; empty if the
            package is not in a checkout.
    """

    date: str
    version: str
    commit: str


def current_origin() -> Origin:
    """Return today and the state of the running program."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return Origin(today, version("dynamite-fl"), _commit(Path(__file__).parents[1]))


def _commit(package: Path) -> str:
    commit = _git(package, "rev-parse", "--short=10", "HEAD")
    tracked = _git(package, "ls-files", "--", str(package))
    if not commit or not tracked:
        return ""
    changed = _git(package, "status", "--porcelain", "--", str(package))
    return commit + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints; nothing if it fails or is not installed."""
    try:
        process = subprocess.run(  # noqa: S603  git, on our own folder
            ["git", "-C", str(folder), *arguments],  # noqa: S607  whichever the user has
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def record_origin(folder: Path, origin: Origin) -> None:
    """Note in a run's folder that this state of the program starts or continues the run.

    Earlier states are dropped if they left no checkpoint, because the run then starts again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = read_origins(folder) if RunFolder(folder).checkpoint.exists() else []
    if origin not in earlier:
        text = json.dumps([asdict(each) for each in [*earlier, origin]])
        write_atomically(folder / _FILE, text + "\n")


def read_origins(folder: Path) -> list[Origin]:
    """Return the states of the program that made a run, the earliest first."""
    file = folder / _FILE
    if not file.is_file():
        return []
    return [Origin(**each) for each in json.loads(file.read_text(encoding="utf-8"))]


def in_words(origins: Sequence[Origin]) -> str:
    """Return dates, versions and commits in words.

    Example:
        >>> in_words([Origin("2026-01-02", "0.1.0", "abc"), Origin("2026-01-05", "0.1.0", "")])
        'from 2026-01-02 to 2026-01-05 with version 0.1.0, commit abc'
    """
    days = sorted({origin.date for origin in origins})
    versions = sorted({origin.version for origin in origins})
    commits = sorted({origin.commit for origin in origins if origin.commit})
    when = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    words = f"{when} with version {', '.join(versions)}"
    return f"{words}, commit {', '.join(commits)}" if commits else words
