"""The memory that a process which trains frees and needs again at once."""

import ctypes
import os
import sys

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # the numbers of these settings in malloc.h of glibc
_LARGEST_ON_HEAP = 32 * 2**20  # bytes; glibc takes no more
_MOST_KEPT = 512 * 2**20  # bytes
_ENVIRONMENT = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_TUNABLES = ("glibc.malloc.mmap_threshold", "glibc.malloc.trim_threshold")


def keep_freed_memory() -> None:
    """Let this process keep up to 512 MB of freed memory, instead of returning it to the system.

    Every local step needs the same large tensors as the one before. By default, glibc returns them
    after each operation, and the system then clears their pages anew, which takes 15 to 40 % of a
    convolutional network's step. Nothing changes where there is no glibc, or where the user has set
    the allocator through the environment.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if any(map(os.environ.get, _ENVIRONMENT)) or any(name in tunables for name in _TUNABLES):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
