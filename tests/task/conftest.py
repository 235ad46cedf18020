"""Real data, in the folder that DYNAMITE_DATA names or in shared/data beside the project."""

import lzma
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def absent(what: str) -> None:
    reason = f"no {what}: set DYNAMITE_DATA, or put the data into {SHARED}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one torch thread, as several make small models slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def real_images() -> Path:
    """Return a folder with MNIST and the reduced EMNIST."""
    named = os.environ.get("DYNAMITE_DATA")
    folder = Path(named) if named else SHARED
    if not (folder / "mnist").is_dir() or not (folder / "emnist").is_dir():
        absent("MNIST and EMNIST")
    return folder


@pytest.fixture(scope="session")
def real_cifar_batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the test batch of CIFAR-10; only one of six, since unpacking takes long."""
    named = os.environ.get("DYNAMITE_DATA")
    for path in Path(named).rglob("test_batch") if named else ():
        return path
    packed = SHARED / "cifar10" / "test_batch.xz"
    if not packed.is_file():
        absent("CIFAR-10")
    path = tmp_path_factory.mktemp("cifar") / "test_batch"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder, the only folder that is searched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DYNAMITE_DATA", raising=False)
    return tmp_path / "cache" / "dynamite-fl"
