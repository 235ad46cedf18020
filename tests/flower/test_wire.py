"""Bytes as the content of a message."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from dynamite_fl.flower.auth import MAX_REQUEST_BYTES
from dynamite_fl.flower.wire import Malformed, pack, unpack


def test_a_large_model_is_sent_in_parts_that_the_server_accepts() -> None:
    data = np.random.default_rng(0).bytes(12_000_000)
    content = pack(data)
    sizes = [len(part.deflate()) for part in get_all_nested_objects(content).values()]
    assert len(content) == 3
    assert sum(sizes) > len(data)
    assert max(sizes) < MAX_REQUEST_BYTES / 2
    assert unpack(content) == data


def test_a_small_model_is_sent_in_one_part() -> None:
    """This needs the fewest requests: one for the record, one for its bytes."""
    assert len(get_all_nested_objects(pack(b"weights"))) == 2


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({"part-000000": ConfigRecord({"text": "weights"})}),
        RecordDict({"part-000000": ConfigRecord({"bytes": 3})}),
        RecordDict({"part-000000": ArrayRecord()}),
    ],
)
def test_contents_that_are_no_message_are_refused(content: RecordDict) -> None:
    with pytest.raises(Malformed, match="the message has no bytes"):
        unpack(content)
