"""Arrays and values as a message's content, of as few parts as can be.

Flower sends each part of a message, and each array in it twice, by a request of its own, which
takes longer than what a small model needs on the way. So all goes into one run of bytes, as
safetensors has it, with the values as JSON in its header. Nothing is pickled.
"""

import json
from typing import Any, cast

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray
from safetensors.numpy import load, save

_MOST_BYTES = 4 * 2**20  # of a part: large models go in several, which can be sent again singly
_BYTES = "bytes"


class Malformed(ValueError):  # noqa: N818  it says what a message is
    """A message that cannot be used; the text says why."""


def wrapped(arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> RecordDict:
    """Arrays and values by their names, as a message's content.

    Example:
        >>> content = wrapped({"x": np.ones(2, np.float32)}, {"k": 3, "name": "ward"})
        >>> len(content), unwrapped(content)
        (1, ({'x': array([1., 1.], dtype=float32)}, {'k': 3, 'name': 'ward'}))
    """
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = save(whole, metadata={"values": json.dumps(values)})
    starts = range(0, len(data), _MOST_BYTES)
    parts = [ConfigRecord({_BYTES: data[start : start + _MOST_BYTES]}) for start in starts]
    return RecordDict({f"part-{place:06d}": part for place, part in enumerate(parts)})


def unwrapped(content: RecordDict) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What ``wrapped`` was given.

    Raises:
        Malformed: The content is something else.
    """
    try:
        data = b"".join(cast(bytes, content[name][_BYTES]) for name in sorted(content))
        size = int.from_bytes(data[:8], "little")
        values = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["values"])
        if not isinstance(values, dict):
            raise Malformed("the message has no values")
        return load(data), values
    except Exception as error:  # the bytes are whatever was sent
        raise Malformed(f"the message cannot be read: {error}") from None
