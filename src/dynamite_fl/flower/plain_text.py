"""Texts of other machines as one short line, which can be logged and shown."""

import unicodedata

_LONGEST = 300


def plain(text: str, most: int = _LONGEST) -> str:
    r"""Return a text on one line and of limited length, with other than plain characters escaped.

    A newline in a text could forge a line of a log, and control characters could change what a
    terminal shows.

    Example:
        >>> print(plain("disk full" + chr(10) + "12:00 all is well" + chr(27) + "[2K"))
        disk full\n12:00 all is well\x1b[2K
        >>> print(plain("x" * 1000, most=5))
        xxxxx... (1000 characters)
    """
    start = text[:most]
    escaped = "".join(c if _is_plain(c) else c.encode("unicode_escape").decode() for c in start)
    return escaped if len(text) <= most else f"{escaped}... ({len(text)} characters)"


def _is_plain(character: str) -> bool:
    """Return whether a character is neither a control character nor a hidden or unassigned one."""
    return character == " " or unicodedata.category(character)[0] not in "CZ"
