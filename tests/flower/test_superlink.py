"""Where a SuperLink listens."""

import socket

import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.superlink import SuperLink


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org"])  # noqa: S104
def test_without_keys_only_this_machine_is_served(host: str) -> None:
    with pytest.raises(InvalidInput, match="only listen at this machine's own address, not at"):
        SuperLink(host, 0)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot listen at 127.0.0.1, port {port}"):
            SuperLink("127.0.0.1", port)
