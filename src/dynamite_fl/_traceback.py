"""Tracebacks of a user's own code, without the frames of this package and of libraries."""

import sysconfig
import traceback
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def user_traceback(error: BaseException) -> str | None:
    """Format an exception from the user's first frame on; None if no frame is the user's.

    Frames of this package are left out. Those of libraries that the user's code called stay, since
    they show what went wrong there.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    first = next((i for i, frame in enumerate(ours) if _is_users(frame.filename)), None)
    if first is None:
        return None
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(ours[first:])]
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


def with_bug_note(error: BaseException) -> BaseException:
    """Add to an exception's traceback that it shows a bug, and where to report it."""
    error.add_note(
        "This is a bug in dynamite, not in your job. Please report it in the project's issue "
        "tracker, with the lines above, the command and `dynamite --version`."
    )
    return error


def _is_users(filename: str) -> bool:
    """Whether a file is neither ours, nor a library's, nor the interpreter's own."""
    inside = filename.startswith((_PACKAGE, *_LIBRARIES))
    return not inside and not filename.startswith("<") and Path(filename).is_file()
