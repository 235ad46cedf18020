"""What the benchmarks of the feedback share: a case beside tuned baselines, as lines of a table.

The baselines are FedAvg, FedAvgM, FedAdam and FedExP, each at its best rates in hindsight, the
paper's rule, and the best fixed rate, local steps and batch size in hindsight. All but the paper's
rule are tuned with the seeds that are shown, which favours them. The share of the way is counted
from FedAvg at its best rate to the best fixed setting.
"""

import argparse
import statistics
from collections.abc import Sequence
from typing import Any, Protocol

from comparing import compared, parser_of, percent

OURS, PAPER = "dynamite-feedback", "dynamite"
SERVERS = ["fedavgm", "fedadam", "fedexp"]
HEADINGS = ["FedAvg", "FedAvgM", "FedAdam", "FedExP", "feedback", "ahead of FedAvg"]
OF_HINDSIGHT = ["the paper's rule", "best fixed", "the paper's rule, of the way"]
OF_HINDSIGHT += ["feedback, of the way"]


class Measurable(Protocol):
    """A job, and what tells it from others."""

    @property
    def cells(self) -> list[str]:
        """What tells it from the others, as cells of a table."""
        ...

    @property
    def name(self) -> str:
        """What its folder is called."""
        ...

    @property
    def job(self) -> str:
        """Its job file."""
        ...


def parser_with_baselines(document: str | None, runs: str) -> argparse.ArgumentParser:
    """Return a parser of the options of a benchmark with tuned baselines."""
    parser = parser_of(document, runs)
    parser.add_argument("--only", nargs="+", default=[], help="words that a case must have, all")
    parser.add_argument("--list", action="store_true", help="print the cases' names")
    parser.add_argument(
        "--baselines", action="store_true", help="run the baselines only, to be kept for later"
    )
    parser.add_argument(
        "--tune", nargs="*", default=SERVERS, help="what to tune beside FedAvg. Default: all"
    )
    parser.add_argument(
        "--no-hindsight",
        action="store_true",
        help="leave out the best fixed setting and the paper's rule, which take most of the time",
    )
    return parser


def _measured(arguments: argparse.Namespace, name: str, job: str) -> dict[str, Any]:
    """One case, as ``dynamite compare --tune ... --hindsight --json`` reports it."""
    controllers = [OURS] if arguments.no_hindsight else [OURS, PAPER]
    if arguments.baselines:
        controllers = ["fedavg@0.1"]  # it is tried anyway
    more = ["--tune", ",".join(["fedavg", *arguments.tune])]
    more += [] if arguments.no_hindsight else ["--hindsight"]
    return compared(arguments, name, job, controllers, *more)


def print_table(
    arguments: argparse.Namespace,
    known: Sequence[Measurable],
    headings: Sequence[str],
    controllers: Sequence[str],
) -> None:
    """Measure the cases that were asked for, or print their names.

    Args:
        arguments: The options of ``parser_with_baselines``.
        known: All cases.
        headings: The headings of a case's cells.
        controllers: The controllers to sum up at the end.
    """
    chosen = [case for case in known if all(word in case.name for word in arguments.only)]
    if arguments.list:
        print(*(case.name for case in chosen), sep="\n")
        return
    print(_header([*headings, *HEADINGS, *([] if arguments.no_hindsight else OF_HINDSIGHT)]))
    every = []
    for case in chosen:
        every.append(_measured(arguments, case.name, case.job))
        print(_row(case.cells, every[-1]), flush=True)
    for name in controllers:
        print(f"\n{_summary(name, every)}")


def _header(headings: Sequence[str]) -> str:
    """Return the head of the table."""
    return f"| {' | '.join(headings)} |\n{'|---' * len(headings)}|"


def _row(cells: Sequence[str], found: dict[str, Any]) -> str:
    """Return one line of the table."""
    rows = {each["controller"]: each["final"] for each in found["controllers"]}
    texts = [_tuned(found, method, rows) for method in ("fedavg", *SERVERS)]
    texts += [f"**{percent(rows[OURS])}**" if OURS in rows else ""]
    texts += [f"{_lead(OURS, ['fedavg'], found):+.1f}" if OURS in rows else ""]
    if "hindsight" in found:
        best, covered = found["hindsight"]["best"], found["hindsight"]["covered"]
        texts += [percent(rows[PAPER]) if PAPER in rows else ""]
        texts += [f"{percent(best['final'])} ({best['controller'].removeprefix('fixed-')})"]
        texts += [_share(covered[name]) if name in covered else "" for name in (PAPER, OURS)]
    return f"| {' | '.join([*cells, *texts])} |"


def _summary(name: str, every: Sequence[dict[str, Any]]) -> str:
    """How far on the way a controller is, and how far ahead of tuned baselines at the least."""
    with_it = [found for found in every if name in _means(found)]
    if not with_it:
        return f"{name}: not measured"
    text = f"{name}: {_ahead(name, ['fedavg'], with_it)} tuned FedAvg"
    text += f", {_ahead(name, ['fedavg', *SERVERS], with_it)} the best tuned baseline"
    text += f", of {len(with_it)} cases"
    shares = [found["hindsight"]["covered"][name] for found in with_it if "hindsight" in found]
    known = [part for part in shares if part is not None]
    if not known:
        return text
    return (
        f"{text}; {statistics.fmean(known):.0%} of the way on average, {min(known):.0%} at least, "
        f"where there is one to go ({len(known)} cases)"
    )


def _ahead(name: str, methods: Sequence[str], every: Sequence[dict[str, Any]]) -> str:
    leads = [_lead(name, methods, found) for found in every]
    return f"{statistics.fmean(leads):+.1f} points on average and {min(leads):+.1f} at least from"


def _lead(name: str, methods: Sequence[str], found: dict[str, Any]) -> float:
    """Return by how many points a controller is ahead of the best of some tuned methods."""
    means, tuned = _means(found), found["tuned"]
    best = max(means[tuned[each]["best"]] for each in methods if each in tuned)
    return 100 * (means[name] - best)


def _means(found: dict[str, Any]) -> dict[str, float]:
    return {each["controller"]: each["final"]["mean"] for each in found["controllers"]}


def _tuned(found: dict[str, Any], method: str, rows: dict[str, Any]) -> str:
    """Return what a method reaches at its best rate, and the rate."""
    if method not in found["tuned"]:
        return ""
    name = found["tuned"][method]["best"]
    return f"{percent(rows[name])} ({name.removeprefix(method)})"


def _share(covered: float | None) -> str:
    return "n/a" if covered is None else f"{covered:.0%}"
