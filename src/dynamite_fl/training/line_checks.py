"""Checks that tie the lines of a history to each other and to their run.

Each line of a history ends with a check: a digest of the line and of the check before it. The first
line follows the run's identity. So a line that was changed, lost, doubled or copied from another
run is noticed. Checks find damage and mistakes; they are no protection against forgery.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator

_LENGTH = 16  # hexadecimal digits, 64 bits
_CHECKED = re.compile(r'(?P<content>.*), "check": "(?P<check>[0-9a-f]{16})"\}\n', re.DOTALL)


def digest(*parts: str) -> str:
    """Return a check of some texts.

    Example:
        >>> digest("a", "bc") == digest("ab", "c")
        False
    """
    content = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_LENGTH]


def with_check(line: str, previous: str) -> tuple[str, str]:
    r"""Return a line of JSON with its check, and the check.

    Args:
        line: The line, an object of at least one field.
        previous: The check of the line before it; for the first line, the run's identity.

    Example:
        >>> with_check('{"round": 1}\n', previous="")[0]
        '{"round": 1, "check": "2398ad7e7ecbe893"}\n'
    """
    content = line.removesuffix("}\n")
    check = digest(previous, content)
    return f'{content}, "check": "{check}"}}\n', check


def find_broken(lines: Iterable[str], first: str | None, needed: bool) -> Iterator[bool]:
    """Yield for each line whether its check is wrong.

    Args:
        lines: The lines of a history.
        first: The check that the first line must follow; None to accept any.
        needed: Whether each line must have a check. Older histories have none.
    """
    previous = first
    for line in lines:
        match = _CHECKED.fullmatch(line)
        if match is None:
            yield needed
            continue
        check, content = match["check"], match["content"]
        yield previous is not None and digest(previous, content) != check
        previous = check


def check_of(line: str) -> str | None:
    """Return the check at the end of a line; None if it has none."""
    match = _CHECKED.fullmatch(line)
    return None if match is None else match["check"]
