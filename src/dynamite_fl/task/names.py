"""What to say of a name that is not known."""

import difflib
from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message with the nearest name and all names.

    Example:
        >>> unknown("model", "smv", ["softmax", "svm"])
        "no model is called 'smv' (did you mean svm?): there are softmax, svm"
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"no {what} is called {name!r}{hint}: there are {', '.join(known)}"
