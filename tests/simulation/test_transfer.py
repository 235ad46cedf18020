import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dynamite_fl.simulation.transfer import pack, receive, send
from tests.processes import HANG_SECONDS

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def transferred(message: Any) -> Any:
    """Return what arrives at the other end; a thread sends it, because a pipe holds little."""
    here, there = Pipe()
    with here, there:
        sending = threading.Thread(target=send, args=(here, pack(message)))
        sending.start()
        received = receive(there)
        sending.join(HANG_SECONDS)
        assert not there.poll()  # nothing is left over
    return received


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(0, 5), max_size=3),
    seed=st.integers(0, 9),
)
def test_a_tensor_arrives_to_the_bit(dtype: torch.dtype, shape: list[int], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    bytes_each = torch.empty(0, dtype=dtype).element_size()
    drawn = torch.randint(2 if dtype == torch.bool else 256, (*shape, bytes_each), generator=random)
    tensor = drawn.to(torch.uint8).view(dtype).reshape(shape)  # any bits, also those of NaN
    received = transferred(tensor)
    assert (received.dtype, received.shape) == (dtype, tensor.shape)
    assert bits(received) == bits(tensor)


def test_a_received_tensor_is_like_one_that_torch_has_made() -> None:
    tensor = torch.arange(300_000.0)
    received = transferred(tensor)
    assert received.data_ptr() % 64 == 0  # results of torch may depend on the alignment
    received += 1
    assert torch.equal(received, tensor + 1)
    assert tensor[0] == 0


def test_views_arrive_as_they_look() -> None:
    whole = torch.arange(12.0).reshape(3, 4).requires_grad_()
    row, column, wide = transferred((whole[1], whole[:, 1], whole[0].expand(2, 4)))
    assert row.tolist() == [4, 5, 6, 7]
    assert column.tolist() == [1, 5, 9]
    assert wide.tolist() == [[0, 1, 2, 3]] * 2


def test_a_tensor_that_occurs_twice_is_sent_once() -> None:
    tensor = torch.ones(1000)
    message = [tensor, {"again": tensor}]
    assert sum(part.nbytes for part in pack(message).memory) == 4000
    first, second = transferred(message)
    assert second["again"] is first


@pytest.mark.parametrize("rows", [[], [3, 1, 2]])
def test_arrays_and_meta_tensors_arrive(rows: list[int]) -> None:
    message = (np.array(rows, dtype=np.int64), torch.empty(3, 2, device="meta"), "text")
    array, meta, text = transferred(message)
    assert array.dtype == np.int64
    assert array.tolist() == rows
    assert meta.is_meta
    assert meta.shape == (3, 2)
    assert text == "text"


def test_a_message_can_be_sent_twice() -> None:
    packed = pack((torch.ones(3), 1))
    here, there = Pipe()
    with here, there:
        for _ in range(2):
            send(here, packed)
        for _ in range(2):
            assert receive(there)[0].tolist() == [1, 1, 1]


def send_nothing(_connection: Connection) -> None:
    pass


def send_without_memory(connection: Connection) -> None:
    packed = pack(torch.ones(1000))
    connection.send((packed.pickled, [part.nbytes for part in packed.memory]))


@pytest.mark.parametrize("begin", [send_nothing, send_without_memory])
def test_an_end_in_the_middle_is_told(begin: Callable[[Connection], None]) -> None:
    here, there = Pipe()
    with there:
        begin(here)
        here.close()
        with pytest.raises(EOFError):
            receive(there)
        with pytest.raises(OSError, match=r"[Pp]ipe"):
            send(there, pack(1))
