"""Runs of a comparison in threads of this process, which saves starting processes."""

import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, cast

import pytest

from dynamite_fl.compare import parallel, worker


def start_thread(data_dir: Path | None) -> parallel._Worker:
    ours, theirs = Pipe()
    thread = threading.Thread(target=worker.work, args=(theirs, data_dir), daemon=True)
    thread.start()
    return parallel._Worker(cast(Any, thread), ours)


@pytest.fixture
def threads_for_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads do what processes do; ``test_parallel.py`` has the processes themselves."""
    monkeypatch.setattr(parallel, "_start_worker", start_thread)
