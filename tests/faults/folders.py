"""Damage to the files of run folders."""

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

NAMES = (  # of a simulated run
    "job.toml",
    "run.json",
    "history.jsonl",
    "checkpoint.safetensors",
    "checkpoint-earlier.safetensors",
    "model.safetensors",
    "ended.txt",
)
SERVED = ("nodes.json", "releases.txt")  # what a run on real machines has in addition


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def cut(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def cut_lines(path: Path, chance: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: chance.randrange(len(lines))]))


def double(path: Path, _: random.Random) -> None:
    path.write_bytes(path.read_bytes() * 2)


def empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, _: random.Random) -> None:
    path.unlink()


def scramble(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    place = chance.randrange(len(content))
    path.write_bytes(content[:place] + chance.randbytes(20) + content[place + 20 :])


def overwrite_with_zeros(path: Path, chance: random.Random) -> None:
    """Do what some file systems do to a file when the power fails."""
    content = path.read_bytes()
    place = chance.randrange(len(content))
    path.write_bytes(content[:place] + bytes(len(content) - place))


def put_pipe(path: Path, _: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def put_device(path: Path, _: random.Random) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def put_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def put_loop(path: Path, _: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def put_hole(path: Path, _: random.Random) -> None:
    """Make the file a terabyte large, all of it a hole."""
    os.truncate(path, 1 << 40)


HARMS: tuple[Callable[[Path, random.Random], None], ...] = (
    flip, flip, flip, flip, cut, cut_lines, double, empty, remove, scramble, overwrite_with_zeros,
    put_pipe, put_device, put_folder, put_loop, put_hole,
)  # fmt: skip


def harmed(
    whole: Path,
    other: Path,
    target: Path,
    chance: random.Random,
    names: Sequence[str] = NAMES,
) -> str:
    """Copy a run folder and harm one of its files; say which and how.

    Args:
        whole: The folder.
        other: The folder of another run, of whose files one may be taken.
        target: The copy.
        chance: Chooses.
        names: The files that may be harmed.
    """
    shutil.copytree(whole, target)
    name = chance.choice([name for name in names if (whole / name).exists()])
    if chance.random() < 0.15 and (other / name).exists():
        shutil.copy(other / name, target / name)
        return f"{name} of another run"
    harm = chance.choice(HARMS)
    harm(target / name, chance)
    return f"{harm.__name__} {name}"
