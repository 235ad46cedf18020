"""The feedback beside FedAvg, the paper's rule and the best fixed setting in hindsight.

    python benchmarks/feedback.py --data-dir DATA [--seeds 3] [--runs runs/feedback]
        [--only softmax time] [--drawn 20] [--list]

The cases are those of ``cases.py``, or some drawn at random (``drawn.py``). Finished runs are kept,
so that the command can be repeated. It prints a table in Markdown.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from cases import Case, cases
from comparing import compared, parser_of, percent
from drawn import Drawn, drawn

OURS = ["dynamite-feedback", "dynamite"]
HEADINGS = ["model", "data", "rate", "rounds", "a step's overhead", "bound by", "fedavg"]
HEADINGS += ["dynamite", "feedback", "best fixed", "dynamite, of the way", "feedback, of the way"]


def row(case: Case | Drawn, found: dict[str, Any]) -> str:
    """Return one line of the table."""
    rows = {each["controller"]: each for each in found["controllers"]}
    looked = found["hindsight"]
    best = looked["best"]
    pair = f"{best['controller'].removeprefix('fixed-')}: {percent(best['final'])}"
    texts = [percent(rows[name]["final"]) for name in ("fedavg", "dynamite")]
    texts += [f"**{percent(rows['dynamite-feedback']['final'])}**", pair]
    texts += [share(looked["covered"][name]) for name in reversed(OURS)]
    return f"| {' | '.join([*case.cells, *texts])} |"


def summary(name: str, every: Sequence[dict[str, Any]]) -> str:
    """How far on the way a controller is, and how far ahead of FedAvg at the least."""
    shares = [found["hindsight"]["covered"][name] for found in every]
    told = [part for part in shares if part is not None]
    ahead = []
    for found in every:
        mean = {each["controller"]: each["final"]["mean"] for each in found["controllers"]}
        ahead.append(100 * (mean[name] - mean["fedavg"]))
    text = f"{min(ahead):+.1f} points from FedAvg at least, of {len(every)} cases"
    if not told:
        return text
    return (
        f"{statistics.fmean(told):.0%} of the way on average, {min(told):.0%} at least, where "
        f"there is one to go ({len(told)} cases); {text}"
    )


def share(covered: float | None) -> str:
    return "n/a" if covered is None else f"{covered:.0%}"


def main() -> None:
    parser = parser_of(__doc__, "runs/feedback")
    parser.add_argument("--only", nargs="+", default=[], help="words that a case must have, all")
    parser.add_argument(
        "--drawn", type=int, default=0, help="so many cases drawn at random instead"
    )
    parser.add_argument("--list", action="store_true", help="print the cases' names")
    arguments = parser.parse_args()
    known: Sequence[Case | Drawn] = drawn(arguments.drawn) if arguments.drawn else cases()
    chosen = [case for case in known if all(word in case.name for word in arguments.only)]
    if arguments.list:
        print(*(case.name for case in chosen), sep="\n")
        return
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---" * len(HEADINGS) + "|")
    every = []
    for case in chosen:
        every.append(compared(arguments, case.name, case.job, [*OURS, "fedavg"], "--hindsight"))
        print(row(case, every[-1]), flush=True)
    for name in OURS:
        print(f"\n{name}: {summary(name, every)}")


if __name__ == "__main__":
    main()
