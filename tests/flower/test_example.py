"""The apps in ``examples``, on a Grid without a network and on stock Flower."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Context, RecordDict

from dynamite_fl.training.history import read_history
from tests.flower.local_grid import LocalGrid
from tests.flower.machines import ENVIRONMENT
from tests.processes import HANG_SECONDS, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
OWN_APP = EXAMPLE.with_name("flower_strategy")
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


@pytest.mark.parametrize(
    ("controller", "least"), [("dynamite-feedback", 0.4), ("no-straggler", 0.0)]
)
def test_an_app_with_its_own_train_function(
    controller: str, least: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.syspath_prepend(OWN_APP)
    monkeypatch.chdir(tmp_path)
    from digits_app import client_app, server_app  # type: ignore[import-not-found]

    configs = {part: {"partition-id": part, "num-partitions": 3} for part in range(3)}
    grid = LocalGrid(dict.fromkeys(configs, client_app.app), configs)
    config: dict[str, bool | float | int | str]
    config = {"deadline": 60.0, "budget": 100.0, "rounds": 9, "controller": controller}
    torch.manual_seed(0)
    server_app.app(grid, Context(1, 1, {}, RecordDict(), config, series_id=1))
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed.startswith("9 rounds, ended by the rounds: {'accuracy': 0.")
    assert float(printed.partition(": ")[2].strip("{}").split()[-1]) >= least
    assert (tmp_path / "digits.pt").exists()


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
def started(name: str, *words: str, environment: dict[str, str], folder: Path) -> Iterator[None]:
    """Run a command of Flower, and end all processes that it has started with the context."""
    with (folder / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            env=environment,
            cwd=folder,
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


@contextmanager
def stock_flower(folder: Path, node_configs: list[str]) -> Iterator[dict[str, str]]:
    """Start a SuperLink and SuperNodes; yield the environment in which ``flwr`` finds them."""
    link, *ports = free_ports(1 + len(node_configs))
    home, address = folder / "home", f"127.0.0.1:{link}"
    home.mkdir()
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
    with ExitStack() as processes:
        start = partial(started, environment=environment, folder=folder)
        processes.enter_context(start("link", "flower-superlink", *listen, str(link)))
        for number, (port, config) in enumerate(zip(ports, node_configs, strict=True)):
            words = (*listen, str(port), "--superlink", address, "--node-config", config)
            processes.enter_context(start(f"n{number}", "flower-supernode", *words))
        wait_until(lambda: can_connect(link), (folder / "link.log").read_text)
        yield environment


def flwr_run(app: Path, environment: dict[str, str], config: str) -> None:
    flwr("run", str(app), "t", "--run-config", config, environment=environment)


def flwr(*words: str, environment: dict[str, str]) -> str:
    """Run a command of Flower to its end, and return what it printed."""
    result = subprocess.run(
        [BIN / "flwr", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def end_of(log: Path) -> Callable[[], str]:
    return lambda: log.read_text()[-3000:]


@pytest.mark.slow
def test_on_stock_flower(tmp_path: Path) -> None:
    configs = [f'partition-id={p} name="n{p}" state="{tmp_path / str(p)}"' for p in (0, 1)]
    history = tmp_path / "run" / "history.jsonl"
    with stock_flower(tmp_path, configs) as environment:
        flwr_run(EXAMPLE, environment, f'rounds=2 folder="{history.parent}"')
        wait_until((history.parent / "ended.txt").exists, end_of(tmp_path / "link.log"))
    records = read_history(history)
    assert [record.round for record in records] == [1, 2]
    assert records[-1].absent == ()


@pytest.mark.slow
def test_an_app_of_one_s_own_on_stock_flower(tmp_path: Path) -> None:
    configs = [f"partition-id={part} num-partitions=2" for part in (0, 1)]
    log = tmp_path / "link.log"
    with stock_flower(tmp_path, configs) as environment:
        flwr_run(OWN_APP, environment, "rounds=3 deadline=600.0")
        wait_until(lambda: "Finished task" in log.read_text(), end_of(log))
        (run,) = re.findall(r"Created run (\d+)", log.read_text())
        printed = flwr("log", run, "t", "--show", environment=environment)
    assert "3 rounds, ended by the rounds: {'accuracy': 0." in printed
    assert (tmp_path / "digits.pt").exists()
