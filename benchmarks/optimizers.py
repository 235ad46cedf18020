"""The feedback beside FedAvg, both with momentum and with AdamW.

    python benchmarks/optimizers.py --data-dir DATA [--seeds 3] [--runs runs/optimizers]

Both have the same optimiser and the same learning rate. Finished runs are kept, so that the command
can be repeated. It prints a table in Markdown.
"""

from dataclasses import replace

from cases import HEADINGS, Case
from comparing import accuracies, compared, parser_of

CONTROLLERS = ["fedavg", "dynamite-feedback"]
RATES = {"momentum 0.9": (0.003, 0.01), "AdamW": (0.0003, 0.001)}
CASES = [
    Case("softmax", bound="time"),
    Case("perceptron", "by label", rounds=60),
    Case("cnn", rounds=30, fleet="testbed5"),
]


def main() -> None:
    arguments = parser_of(__doc__, "runs/optimizers").parse_args()
    headings = [*HEADINGS, "rate", "FedAvg", "feedback"]
    print(f"| {' | '.join(headings)} |\n{'|---' * len(headings)}|")
    for case in CASES:
        for optimizer, rates in RATES.items():
            for rate in rates:
                tried = replace(case, rate=rate, optimizer=optimizer)
                found = compared(arguments, tried.name, tried.job, CONTROLLERS)
                cells = " | ".join([*tried.cells, f"{rate:g}"])
                print(f"| {cells} | {accuracies(found, CONTROLLERS)} |", flush=True)


if __name__ == "__main__":
    main()
