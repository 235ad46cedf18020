"""The feedback in few rounds, beside tuned baselines and the best fixed setting in hindsight.

    python benchmarks/few_rounds.py --data-dir DATA [--seeds 3] [--runs runs/few-rounds]
        [--rounds 3 5 10 20] [--only softmax] [--list] [--baselines] [--again dynamite-feedback]

Five jobs have limits that are made for 200 rounds of FedAvg's default (the embedded job: for 150),
and 3, 5, 10 or 20 rounds. A round may have local steps for several epochs, as where hospitals or
companies train together. Finished runs are kept, so that the command can be repeated. It prints a
table in Markdown.
"""

from dataclasses import dataclass, replace
from importlib.resources import files

from baselines import OURS, parser_with_baselines, print_table
from cases import HEADINGS, Case

ROUNDS = [3, 5, 10, 20]
CASES = [
    replace(case, bound="little", limits_for=100, max_local_steps=500)
    for case in (
        Case("softmax"),
        Case("perceptron", "by label"),
        Case("perceptron", dataset="emnist-reduced"),
        Case("cnn", fleet="testbed5"),
    )
]


@dataclass(frozen=True)
class Embedded:
    """The job that ``dynamite run`` has without a file: a perceptron on digits, ten devices."""

    rounds: int

    @property
    def cells(self) -> list[str]:
        """What tells it from the others, as cells of a table."""
        cells = ["perceptron, digits", "Dirichlet 0.3", "SGD", str(self.rounds), "2-13 ms"]
        return [*cells, "little"]

    @property
    def name(self) -> str:
        """What its folder is called."""
        return f"embedded-{self.rounds}"

    @property
    def job(self) -> str:
        """Its job file."""
        text = (files("dynamite_fl.job") / "training.toml").read_text(encoding="utf-8")
        text = text.replace("rounds = 150", f"rounds = {self.rounds}")
        return text.replace("max_local_steps = 100", "max_local_steps = 500")


def cases(rounds: int) -> list[Case | Embedded]:
    """All jobs with so many rounds."""
    return [Embedded(rounds), *(replace(case, rounds=rounds) for case in CASES)]


def main() -> None:
    parser = parser_with_baselines(__doc__, "runs/few-rounds")
    parser.add_argument("--rounds", type=int, nargs="+", default=ROUNDS)
    arguments = parser.parse_args()
    known = [case for rounds in arguments.rounds for case in cases(rounds)]
    print_table(arguments, known, HEADINGS, [OURS])


if __name__ == "__main__":
    main()
