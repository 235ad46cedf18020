"""The file ``nodes.json`` of a run folder: the names of the devices, by client index.

If an entry were lost or changed, the estimates of one device would be taken for those of another. A
check in the file ties it to its run, so that a file that was damaged or exchanged is noticed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.line_checks import digest
from dynamite_fl.training.run_folder import RunFolder

_MOST_BYTES = 100_000_000


@dataclass(frozen=True)
class Names:
    """What the file holds.

    Attributes:
        training: A random word that identifies the training to the devices.
        names: The devices' names, by client index.
    """

    training: str
    names: Sequence[str]


def write_names(path: Path, names: Names) -> None:
    """Write the file atomically."""
    content = {"training": names.training, "names": list(names.names)}
    write_atomically(path, json.dumps({**content, "check": _check(path, content)}) + "\n")


def read_names(path: Path) -> Names | None:
    """Return what the file holds; None if no device has taken part yet.

    Raises:
        RunFolderError: The file is damaged or of another run, or it is missing though rounds were
            trained.
    """
    try:
        content = json.loads(read_regular_text(path, _MOST_BYTES))
        check = content.pop("check", None)
        if check != _check(path, content):
            raise ValueError("its check is wrong")
        return Names(str(content["training"]), [str(name) for name in content["names"]])
    except FileNotFoundError:
        if not RunFolder(path.parent).has_rounds:
            return None
        reason = "is missing, though rounds were trained"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"is damaged or of another run: {error}"
    raise RunFolderError(f"{path} {reason}. Copy it from a backup, or begin anew in another folder")


def _check(path: Path, content: object) -> str:
    run = RunFolder(path.parent).first_check() or ""
    return digest(run, json.dumps(content, sort_keys=True))
