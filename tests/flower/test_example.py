"""The app in ``examples/flower``, on a Grid without a network and on stock Flower."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from dynamite_fl.training.history import read_history
from tests.flower.local_grid import LocalGrid
from tests.flower.machines import ENVIRONMENT
from tests.processes import HANG_SECONDS, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
BIN = Path(sys.executable).parent


def test_an_app_is_short() -> None:
    for name in ("server_app.py", "client_app.py"):
        assert len((EXAMPLE / "signs" / name).read_text().splitlines()) < 30


def test_on_a_grid_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    from signs import client_app, server_app  # type: ignore[import-not-found]

    configs = {
        part: {"partition-id": part, "name": f"n{part}", "state": str(tmp_path / str(part))}
        for part in (0, 1)
    }
    apps = {part: client_app.client_app(client_app.make_client) for part in configs}
    grid = LocalGrid(apps, configs)
    config: dict[str, bool | float | int | str]
    config = {"rounds": 15, "clients": 2, "folder": str(tmp_path / "run")}
    context = Context(1, 1, {}, RecordDict(), config, series_id=1)
    server_app.app(grid, context)
    history = read_history(tmp_path / "run" / "history.jsonl")
    assert len(history) == 15
    assert history[-1].absent == ()
    assert history.final > 0.7


def free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def can_connect(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(log: Path, environment: dict[str, str], *words: str) -> Iterator[None]:
    """Run a command of Flower, and end all processes that it has started with the context."""
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
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(HANG_SECONDS)


@pytest.mark.slow
def test_on_stock_flower(tmp_path: Path) -> None:
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
            f'partition-id={part} name="n{part}" state="{tmp_path / str(part)}"',
        )
        for part, port in enumerate(ports)
    ]
    history = tmp_path / "run" / "history.jsonl"
    with (
        started(tmp_path / "link.log", environment, "flower-superlink", *listen, str(link)),
        started(tmp_path / "n0.log", environment, "flower-supernode", *nodes[0]),
        started(tmp_path / "n1.log", environment, "flower-supernode", *nodes[1]),
    ):
        wait_until(lambda: can_connect(link), (tmp_path / "link.log").read_text)
        config = f'rounds=2 folder="{history.parent}"'
        result = subprocess.run(
            [BIN / "flwr", "run", EXAMPLE, "t", "--run-config", config],
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        ended = history.parent / "ended.txt"
        wait_until(ended.exists, lambda: (tmp_path / "link.log").read_text()[-3000:])
    records = read_history(history)
    assert [record.round for record in records] == [1, 2]
    assert records[-1].absent == ()
