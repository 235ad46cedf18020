"""The paper's figures and tables, by name: what to run, what it claims, whether it holds."""

import tomllib
from pathlib import Path

NAMES = (  # in the paper's order
    "optimal-tau",
    "batch-sizes",
    "online-accuracy",
    "online-cost-time",
    "ablation",
    "sampling",
    "baselines-by-sampling",
    "burst-loss",
    "stream-table",
    "stream-cost-time",
    "buffer-sizes",
    "tau-and-batch",
)


def title_of(name: str) -> str:
    """An experiment's title, from the head of its file: a menu needs no more of it.

    Example:
        >>> title_of("ablation")
        'Ablation on CIFAR-10'
    """
    file = Path(__file__).parent / "jobs" / f"{name}.toml"
    with file.open(encoding="utf-8") as lines:
        line = next(line for line in lines if line.startswith("title = "))
    title: str = tomllib.loads(line)["title"]
    return title
