"""Nodes with a key that do harm, and machines that stand still for a while: rounds go on."""

import hashlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node as NodeRecord
from flwr.proto.recorddict_pb2 import BytesList

from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.messages import Introduction, from_content, to_content
from dynamite_fl.flower.messenger import Messenger
from dynamite_fl.flower.node import Node
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.whole_messages import ALIVE, PUSH, part_ids
from dynamite_fl.flower.wire import Malformed, pack, unpack
from dynamite_fl.training.history import read_history
from tests._cli.machines import check_history, rounds_played, running, write_job
from tests._cli.test_serve import free_port, start_nodes
from tests.flower.fleet import order
from tests.flower.machines import Machines
from tests.flower.test_auth import Server
from tests.flower.test_fleet_rules import Fake, fake, ordered, reply_to
from tests.flower.test_web_server import LOW_LIMIT, few_files
from tests.flower.test_whole_messages import post, whole
from tests.processes import HANG_SECONDS, wait_until

__all__ = ["fake"]  # a fixture
pytestmark = pytest.mark.faults
STILL_SECONDS = 30.0  # longer than a node may be silent without an open connection


def object_id(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def push_raw(fake: Fake, order: Message, *contents: bytes) -> Any:
    """Send a reply of these parts, whatever they are; the first one is the root of the others."""
    tree = ObjectTree(object_id=object_id(contents[0]))
    tree.children.extend(ObjectTree(object_id=object_id(content)) for content in contents[1:])
    reply = reply_to(order)
    reply.metadata.__dict__["_message_id"] = object_id(contents[0])
    announced = PushMessagesRequest(
        node=NodeRecord(node_id=fake.node_id),
        messages_list=[message_to_proto(remove_content_from_message(reply))],
        message_object_trees=[tree],
    )
    by_id = {object_id(content): content for content in contents}
    parts = [by_id[part] for part in part_ids(tree)]
    body = BytesList(vals=[announced.SerializeToString(), *parts]).SerializeToString()
    return post(fake, PUSH, body)


def parts_of(name: str, body: bytes, *children: bytes) -> list[bytes]:
    """Return a part of a message as Flower writes it, and its children."""
    ids = ",".join(map(object_id, children))
    return [f"{name} {ids} {len(body)}".encode() + b"\0" + body, *children]


@pytest.mark.parametrize(
    "contents",
    [
        parts_of("Message", b"\xff" * 5),
        parts_of("Message", b""),
        parts_of("Message", b"", *parts_of("ConfigRecord", b"")),
        parts_of("Message", b"", *parts_of("RecordDict", b"{}")),
        parts_of("ConfigRecord", b""),
        parts_of("RecordDict", b"{}"),
        parts_of("Array", b"[" * 10_000),
        parts_of("CustomDataClass", b""),
        [f"Message {'0' * 64} 0".encode() + b"\0"],
    ],
    ids=lambda contents: contents[0][:20].decode(errors="replace"),
)
def test_parts_that_are_no_message_are_an_error_of_their_sender(
    fake: Fake, contents: list[bytes]
) -> None:
    """Flower puts a reply together in the server's own thread, which must survive it."""
    sent = ordered(fake)
    assert push_raw(fake, sent, *contents).status_code == 200
    message_id, messenger = sent.metadata.message_id, Messenger(fake.link.grid)
    assert fake.link.grid.arrived([message_id]) == [message_id]
    reply = messenger.pull_reply(message_id)
    assert reply is not None
    with pytest.raises((Malformed, ValueError)):  # as whoever asked gets to know
        from_content(reply.content, Introduction)
    state = fake.link._state
    assert state.message_ins_store == state.message_res_store == {}
    assert len(state.object_store) == 0


def replaced(record: Introduction, old: bytes, new: bytes) -> bytes:
    """Return the bytes of a record with another text in its header, and the right length of it."""
    data = unpack(to_content(record))
    header = data[8 : 8 + int.from_bytes(data[:8], "little")].replace(old, new)
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"40", b"9" * 5_000),  # a number of more digits than Python reads
        (b"40", b"4e400"),
        (b"90.0", b"9" * 400),  # an integer that no float can hold
        (b"40", b"[" * 50_000 + b"]" * 50_000),
        (b'\\"samples\\": 40', b'\\"samples\\": 40, \\"more\\": 1'),
        (b'"record"', b'"other"'),
        (b"ward", b"\xff\xfe"),
    ],
)
def test_records_with_odd_headers_are_malformed(old: bytes, new: bytes) -> None:
    introduction = Introduction("ward", samples=40, samples_per_second=90.0, seconds=0.1)
    data = replaced(introduction, old, new)
    assert data != replaced(introduction, b"", b"")
    with pytest.raises(Malformed):
        from_content(pack(data), Introduction)


def test_of_a_name_that_is_there_twice_one_value_is_taken_and_checked() -> None:
    introduction = Introduction("ward", samples=40, samples_per_second=90.0, seconds=0.1)
    twice = replaced(introduction, b'\\"samples\\": 40', b'\\"samples\\": 1, \\"samples\\": 40')
    assert from_content(pack(twice), Introduction) == introduction


def test_a_node_that_opens_many_connections_keeps_no_other_out(tmp_path: Path) -> None:
    """Its requests are signed, announce a body, and never end."""
    make_keys(tmp_path, ["127.0.0.1"], ["known", "other"])
    with few_files(), SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        server = Server.at(link.port, tmp_path)
        with ExitStack() as stack:
            for _ in range(LOW_LIMIT // 4):
                connection = stack.enter_context(server.connect())
                headers = {**server.headers(server.key), "host": "x", "content-length": "1000000"}
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                connection.sendall(f"POST {PUSH} HTTP/1.1\r\n{lines}\r\nab".encode())
            wait_until(lambda: len(link.connections) <= 20, lambda: len(link.connections))
            (tmp_path / "known").rename(tmp_path / "bad")
            (tmp_path / "other").rename(tmp_path / "known")
            assert Server.at(link.port, tmp_path).admits_its_node()


def test_hands_are_not_shaken_again_over_the_same_connection(fake: Fake, tmp_path: Path) -> None:
    """A client that renegotiates costs a server much and itself little."""
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{fake.link.port}"]
    try:
        done = subprocess.run(
            [*command, "-CAfile", str(tmp_path / "ca.pem")],
            input=b"R\n" * 20,
            capture_output=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert b"Verify return code: 0" in done.stdout
    assert done.stderr.count(b"RENEGOTIATING") <= 1
    assert b"no renegotiation" in done.stderr.replace(b"_", b" ")


class Elsewhere(BaseHTTPRequestHandler):
    """A server that sends whoever asks to another address."""

    to = ""

    def do_POST(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(307)
        self.send_header("Location", self.to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def listening(to: str = "") -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (Elsewhere,), {"to": to or "/"})
    )
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(HANG_SECONDS)
        server.server_close()


def test_a_server_cannot_send_a_node_to_other_addresses() -> None:
    """Behind a node there may be machines that its server must not reach."""
    with listening() as inner, listening(f"http://127.0.0.1:{inner.server_port}/") as server:
        node = Node(f"127.0.0.1:{server.server_port}", {})
        thread = threading.Thread(target=node.run, args=(lambda *_: None,))
        thread.start()
        wait_until(lambda: len(server.asked) >= 2)  # it has tried again
        node.leave.set()
        thread.join(HANG_SECONDS)
        assert inner.asked == []


@pytest.mark.slow
def test_rounds_go_on_beside_a_node_that_floods_the_server(tmp_path: Path, figure: Any) -> None:
    """It has a key, and sends signs of life and announces replies as fast as it can."""
    with Machines(tmp_path, 2) as machines:
        pass  # only its keys are needed
    make_keys(machines.keys, ["127.0.0.1"], ["known"])
    machines.link = SuperLink("127.0.0.1", 0, read_server_keys(machines.keys / "server"))
    with machines:
        engine = machines.engine()
        server = Server.at(machines.link.port, machines.keys)
        (node_id,) = [n for n, name in machines.link.registered.items() if name == "known"]
        assert server.admits_its_node()
        bad = Fake(machines.link, server, node_id)
        announced = whole(reply_to(ordered(bad)), node_id)
        sent, over = [0], threading.Event()

        def flood(path: str, body: bytes) -> None:
            with httpx.Client(verify=server.trusted, timeout=HANG_SECONDS) as client:
                while not over.is_set():
                    url = f"https://127.0.0.1:{machines.link.port}{path}"
                    client.post(url, headers=server.headers(server.key), content=body)
                    sent[0] += 1

        threads = [
            threading.Thread(target=flood, args=words)
            for words in 4 * [(ALIVE, b""), (PUSH, announced)]
        ]
        for thread in threads:
            thread.start()
        weights, rounds = engine.first_weights(), 10
        began = time.monotonic()
        for index in range(1, rounds + 1):
            outcome = engine.run_round(order(index, weights, clients=2))
            assert outcome.report.present.all()
        seconds = time.monotonic() - began
        over.set()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert len(machines.link._state._object_push_sessions) < 100
    figure(
        f"a flooding node: {sent[0]:,} requests during {rounds} rounds of two others, "
        f"{seconds / rounds:.2f} s each, none lost"
    )


@pytest.mark.slow
def test_a_node_that_stands_still_for_a_while_is_waited_for(tmp_path: Path) -> None:
    """Its reply counts if it comes within the time of the round."""
    with Machines(tmp_path, 2) as machines:
        engine = machines.engine()
        weights = engine.first_weights()
        assert engine.run_round(order(1, weights, clients=2)).report.present.all()
        still = machines.running[1].pid
        os.kill(still, signal.SIGSTOP)
        threading.Timer(STILL_SECONDS, os.kill, (still, signal.SIGCONT)).start()
        outcome = engine.run_round(order(2, weights, clients=2))
        assert outcome.report.present.all()
        assert outcome.seconds > STILL_SECONDS - 1
        assert engine.run_round(order(3, weights, clients=2)).report.present.all()


@pytest.mark.slow
def test_a_second_process_with_the_same_key_is_refused(tmp_path: Path) -> None:
    with Machines(tmp_path, 2) as machines:
        engine = machines.engine()
        weights = engine.first_weights()
        first = machines.running[0]
        second = machines.start(0)
        for index in range(1, 11):
            assert engine.run_round(order(index, weights, clients=2)).report.present.all()
        why = "another process is connected with the key of this node"
        wait_until(lambda: why in machines.log.read_text(), machines.log.read_text)
        assert first.poll() is second.poll() is None
        assert engine.roster.connected_names == ["device 1", "device 2"]
        first.kill()
        first.wait(HANG_SECONDS)
        engine.roster.disconnect(0, "it was killed")
        machines.wait_for_all(engine)  # the second one takes its place
        assert engine.run_round(order(11, weights, clients=2)).report.present.all()


@pytest.mark.slow
def test_a_server_that_stands_still_for_a_while_goes_on_with_all(tmp_path: Path) -> None:
    """The round in which it stands still may be over when it goes on, but no later one is."""
    rounds, port = 30, free_port()
    job, run, log = write_job(tmp_path, rounds), tmp_path / "a", tmp_path / "server.log"
    make_keys(tmp_path / "keys", ["127.0.0.1"], ["n0", "n1"])
    command: list[str | Path] = ["serve", job, "--name", "a", "--runs", tmp_path]
    command += ["--port", str(port), "--keys", tmp_path / "keys" / "server"]
    with ExitStack() as stack:
        start_nodes(stack, tmp_path, job, port)
        with running(*command, log=log) as server:
            wait_until(lambda: rounds_played(run) > 2 or server.poll() is not None, log.read_text)
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(STILL_SECONDS)
            os.kill(server.pid, signal.SIGCONT)
            assert server.wait(HANG_SECONDS) == 0, log.read_text()
    check_history(run, rounds)
    assert [record.absent for record in read_history(run / "history.jsonl")[-10:]] == [()] * 10
