"""Memory that is freed and needed again at once: the pages that the system hands out anew."""

import ctypes
import sys

import pytest

from tests.processes import run_python

# Each piece is larger than all before it. By default, glibc takes such a piece from the system and
# returns it when it is freed, so that 1 + 2 + ... + 30 = 465 MB are handed out. A process that
# keeps what it frees needs no more than the largest piece.
SCRIPT = """
import resource, sys
from dynamite_fl._allocator import keep_freed_memory

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    keep_freed_memory()
before = pages()
for megabytes in range(1, 31):
    b"x" * (megabytes * 2**20)
print(pages() - before)
"""
# The user's own values: glibc then returns all freed memory above 128 KB.
SETTINGS = {
    "variable": {"MALLOC_TRIM_THRESHOLD_": "131072"},
    "tunable": {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"},
}


def pages(act: str, **environment: str) -> int:
    done = run_python(SCRIPT, act, environment=environment)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module", autouse=True)
def glibc() -> None:
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        pytest.skip("the allocator is not that of glibc")


def test_freed_memory_is_used_again() -> None:
    assert pages("keep") < pages("nothing") / 5


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_the_user_has_set_stays(setting: str) -> None:
    kept = pages("keep", **SETTINGS[setting])
    assert kept > pages("nothing", **SETTINGS[setting]) / 2
    assert kept > 5 * pages("keep")
