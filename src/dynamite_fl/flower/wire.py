"""Bytes as the content of a Flower message, in as few parts as possible.

Flower sends every part of a message, and every array in it twice, by a request of its own. For a
small model, these requests take longer than its bytes. So a message is one run of bytes, cut into
parts only if it is large.
"""

from typing import cast

from flwr.app import ConfigRecord, RecordDict

from dynamite_fl.errors import DynamiteError

_MAX_PART_BYTES = 4 * 2**20  # a lost part of a large model can be sent again on its own
_BYTES = "bytes"


class Malformed(DynamiteError, ValueError):  # noqa: N818  it says what a message is
    """A message that cannot be used; the text says why."""


def pack(data: bytes) -> RecordDict:
    """Pack bytes into the content of a message.

    Example:
        >>> content = pack(b"weights")
        >>> len(content), unpack(content)
        (1, b'weights')
    """
    starts = range(0, len(data), _MAX_PART_BYTES)
    parts = [ConfigRecord({_BYTES: data[start : start + _MAX_PART_BYTES]}) for start in starts]
    return RecordDict({f"part-{index:06d}": part for index, part in enumerate(parts)})


def unpack(content: RecordDict) -> bytes:
    """Return the bytes that ``pack`` was given.

    Raises:
        Malformed: The content was not made by ``pack``.
    """
    try:
        return b"".join(cast(bytes, content[name][_BYTES]) for name in sorted(content))
    except (KeyError, TypeError) as error:
        raise Malformed(f"the message has no bytes: {error}") from None
