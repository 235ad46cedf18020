"""One server with many nodes: no reply is lost."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANG_SECONDS

pytestmark = [pytest.mark.faults, pytest.mark.slow]
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "flower_load.py"
NODES, ROUNDS = 50, 5


def test_no_reply_of_many_nodes_is_lost(figure: Any) -> None:
    """The nodes are real, with TLS and keys, but share processes."""
    result = subprocess.run(
        [sys.executable, BENCHMARK, "--nodes", str(NODES), "--rounds", str(ROUNDS)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    cells = [cell.strip() for cell in result.stdout.splitlines()[-1].strip("|").split("|")]
    nodes, processor, _, wall, megabytes, lost = cells
    assert nodes == str(NODES)
    assert lost == "0"
    figure(
        f"load: {ROUNDS} rounds of {nodes} nodes, {processor} s of the server's processor and "
        f"{wall} s each, {megabytes} MB, {lost} replies lost"
    )
