"""A real server at a low limit of open files, with strangers who fill it."""

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dynamite_fl.flower import web_server
from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.superlink import SuperLink
from tests.flower.fleet import order
from tests.flower.machines import Machines
from tests.flower.test_auth import Server
from tests.processes import HANG_SECONDS, wait_until

LOW_LIMIT, USUAL_LIMIT = 256, 1024  # of open files
STRANGER = "127.0.0.9"  # an address of this machine that no node has


@contextmanager
def few_files(limit: int = LOW_LIMIT) -> Iterator[None]:
    """Lower the limit of open files of this process for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Opens connections and sends nothing, or hangs in the middle of a request, until its input ends.
CROWD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # it has more files than the server
port, count, text = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
open_ones = []
for number in range(count):
    try:
        one = socket.create_connection(("127.0.0.1", port), 60, (sys.argv[4], 0))
        one.sendall(text)
        open_ones.append(one)
    except OSError:
        pass
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def crowd(port: int, count: int, text: str = "") -> Iterator[None]:
    """Let another process hold so many connections."""
    with subprocess.Popen(
        [sys.executable, "-c", CROWD, str(port), str(count), text, STRANGER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.kill()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_strangers_neither_take_all_files_nor_keep_nodes_out(tmp_path: Path) -> None:
    make_keys(tmp_path, ["127.0.0.1"], ["known"])
    with few_files(), SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        server = Server.at(link.port, tmp_path)
        with crowd(link.port, 2 * LOW_LIMIT, "GET / HTTP/1.1\r\n"):
            assert len(link.connections) < LOW_LIMIT // 2
            assert open_files() < LOW_LIMIT - 40
            assert server.admits_its_node()


def test_a_server_without_a_file_left_goes_on_when_there_are_some(tmp_path: Path) -> None:
    make_keys(tmp_path, ["127.0.0.1"], ["known"])
    with few_files(), SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        server, files = Server.at(link.port, tmp_path), list[int]()
        with socket.socket() as early:  # which has its file already
            try:
                with suppress(OSError):
                    while True:
                        files.append(os.open(os.devnull, os.O_RDONLY))
                early.connect(("127.0.0.1", link.port))  # the server cannot accept it
                time.sleep(3 * web_server._PAUSE_SECONDS)
                assert len(link.connections) == 0
            finally:
                for file in files:
                    os.close(file)
            wait_until(lambda: len(link.connections) == 1)
        assert server.admits_its_node()


def test_a_stranger_who_says_nothing_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "SECONDS_FOR_STRANGERS", 2.0)
    make_keys(tmp_path, ["127.0.0.1"], ["known"])
    with SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        server = Server.at(link.port, tmp_path)
        silent = socket.create_connection(("127.0.0.1", link.port), HANG_SECONDS)
        with silent, suppress(ConnectionResetError):
            assert silent.recv(1) == b""
        with server.connect() as half:  # it has shaken hands, but its request never ends
            half.sendall(b"POST /v1/fleet/activate-node HTTP/1.1\r\nX-Slow: ")
            with suppress(ConnectionResetError):
                assert half.recv(1) == b""
        wait_until(lambda: len(link.connections) == 0)
        assert server.admits_its_node()


@pytest.mark.faults
@pytest.mark.slow
def test_rounds_go_on_among_2000_idle_connections_and_a_flood_of_handshakes(
    tmp_path: Path, figure: Any
) -> None:
    """The server has the usual limit of open files, and the idle connections come back."""
    handshakes, rounds = tmp_path / "handshakes", 0
    with few_files(USUAL_LIMIT), Machines(tmp_path, 2) as machines:
        engine = machines.engine()
        weights = engine.first_weights()
        flood = [sys.executable, "-c", FLOOD, str(machines.link.port), STRANGER]
        with handshakes.open("wb") as count, subprocess.Popen(flood, stdout=count) as flooding:
            for _ in range(3):  # those of the one before have been hung up on
                with crowd(machines.link.port, 2000):
                    for _ in range(5):
                        rounds += 1
                        outcome = engine.run_round(order(rounds, weights, clients=2))
                        assert outcome.report.present.all()
                        assert open_files() < USUAL_LIMIT - 100
            assert flooding.poll() is None
            flooding.kill()
    shaken = handshakes.stat().st_size
    assert shaken > 0
    figure(
        f"strangers: 3 times 2,000 idle connections and {shaken:,} handshakes, {rounds} rounds of "
        "2 nodes and none lost"
    )


# Shakes hands over TLS, as often as it can, and hangs up; it writes a byte for each time.
FLOOD = """
import socket, ssl, sys
context = ssl._create_unverified_context()
while True:
    try:
        plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60, (sys.argv[2], 0))
        context.wrap_socket(plain, server_hostname="x").close()
        sys.stdout.buffer.write(b".")
        sys.stdout.buffer.flush()
    except OSError:
        pass
"""
