"""The figures and tables of the paper's evaluation, run again and compared with its claims.

Each file in ``jobs/`` describes one experiment: its runs, its charts and the paper's claims.
"""

import tomllib
from pathlib import Path

JOBS = Path(__file__).parent / "jobs"
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
    """Return an experiment's title without parsing its whole file, so that help stays fast.

    Example:
        >>> title_of("ablation")
        'Ablation on CIFAR-10'
    """
    with (JOBS / f"{name}.toml").open(encoding="utf-8") as lines:
        line = next(line for line in lines if line.startswith("title = "))
    title: str = tomllib.loads(line)["title"]
    return title
