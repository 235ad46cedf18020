"""``examples/flower``: an app of one's own, on a Grid without a network and on stock Flower."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from dynamite_fl.report.history import read_history
from tests.engine.flower.local import LocalGrid
from tests.engine.flower.machines import ENVIRONMENT

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower"
BIN = Path(sys.executable).parent


def test_it_is_short() -> None:
    """What an app adds to its model and data."""
    for name in ("server_app.py", "client_app.py"):
        assert len((EXAMPLE / "signs" / name).read_text().splitlines()) < 30


def test_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    from signs import client_app, server_app  # type: ignore[import-not-found]

    own = {
        place: {"partition-id": place, "name": f"n{place}", "state": str(tmp_path / str(place))}
        for place in (0, 1)
    }
    apps = {place: client_app.client_app(client_app.make_client) for place in own}
    grid = LocalGrid(apps, own)
    config: dict[str, bool | float | int | str]
    config = {"rounds": 15, "clients": 2, "folder": str(tmp_path / "run")}
    context = Context(1, 1, {}, RecordDict(), config, series_id=1)
    server_app.app(grid, context)
    history = read_history(tmp_path / "run" / "history.jsonl")
    assert len(history) == 15
    assert history.lines[-1]["absent"] == []
    assert history.final_accuracy > 0.7


def free_ports(count: int) -> list[int]:
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    return ports


@contextmanager
def started(log: Path, environment: dict[str, str], *words: str) -> Iterator[None]:
    """A command of Flower's with all processes that it starts."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


@pytest.mark.faults
def test_on_stock_flower(tmp_path: Path) -> None:
    """SuperLink, SuperNodes and ``flwr run`` as Flower has them, of which each takes a while."""
    link, *ports = free_ports(3)
    home = tmp_path / "home"
    home.mkdir()
    address = f"127.0.0.1:{link}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "t"\n\n[superlink.t]\naddress = "{address}"\ninsecure = true\n'
    )
    environment = {
        **ENVIRONMENT,
        "FLWR_HOME": str(home),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }
    listen = ("--insecure", "--host", "127.0.0.1", "--port")
    nodes = [
        (
            *listen,
            str(port),
            "--superlink",
            address,
            "--node-config",
            f'partition-id={place} name="n{place}" state="{tmp_path / str(place)}"',
        )
        for place, port in enumerate(ports)
    ]
    history = tmp_path / "run" / "history.jsonl"
    with (
        started(tmp_path / "link.log", environment, "flower-superlink", *listen, str(link)),
        started(tmp_path / "n0.log", environment, "flower-supernode", *nodes[0]),
        started(tmp_path / "n1.log", environment, "flower-supernode", *nodes[1]),
    ):
        time.sleep(10)
        config = f'rounds=2 folder="{history.parent}"'
        result = subprocess.run(
            [BIN / "flwr", "run", EXAMPLE, "t", "--run-config", config],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        ended = history.parent / "ended.txt"
        until = time.monotonic() + 240
        while not ended.exists() and time.monotonic() < until:
            time.sleep(0.5)
    assert ended.exists(), (tmp_path / "link.log").read_text()[-3000:]
    lines = read_history(history).lines
    assert [line["round"] for line in lines] == [1, 2]
    assert lines[-1]["absent"] == []
