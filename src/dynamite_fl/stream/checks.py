"""Numbers that a stream is described by, checked."""

from numbers import Real


def require_whole(what: str, value: object, least: int) -> None:
    """Raise a ``ValueError`` unless it is a whole number and not below the least.

    Example:
        >>> require_whole("the stream's size", 2.5, least=0)
        Traceback (most recent call last):
        ValueError: the stream's size is 2.5: it must be a whole number, 0 or more
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} is {value!r}: it must be a whole number, {least} or more")


def is_number(value: object) -> bool:
    """Whether it is a number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)
