"""``dynamite watch``: a server in a process of its own."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests._cli.commands import invoke
from tests.processes import HANG_SECONDS, start_command

TINY = ("--set", "limits.rounds=2", "--set", "task={model='softmax', dataset='synthetic'}")


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    assert invoke("run", *TINY, "--runs", tmp_path, "--name", "a").exit_code == 0
    command = ("watch", tmp_path / "a", tmp_path / "later", "--port", "0", "--json")
    with start_command(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=HANG_SECONDS) as answer:  # noqa: S310
            assert "ended by the rounds" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0
        assert f"note: {tmp_path / 'later'} holds no run yet" in said


def test_an_address_that_cannot_be_used(tmp_path: Path) -> None:
    result = invoke("watch", tmp_path, "--host", "192.0.2.1", "--port", "0")
    assert result.exit_code == 2
    assert "the page cannot be served at 192.0.2.1" in result.stderr
