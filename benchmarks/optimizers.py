"""The feedback beside FedAvg, both with momentum and with AdamW.

    python benchmarks/optimizers.py --data-dir DATA [--seeds 3] [--runs runs/optimizers]

Both have the same optimiser and the same learning rate. Finished runs are kept, so that the command
can be repeated. It prints a table in Markdown.
"""

from dataclasses import replace

from cases import Case
from comparing import accuracies, compared, parser_of

CONTROLLERS = ["fedavg", "dynamite-feedback"]
OPTIMIZERS = {  # each with the learning rates that it is tried with
    "momentum 0.9": ('[optimizer]\nname = "SGD"\nmomentum = 0.9\n', (0.003, 0.01)),
    "AdamW": ('[optimizer]\nname = "AdamW"\n', (0.0003, 0.001)),
}
CASES = [
    Case("softmax", bound="time"),
    Case("perceptron", "by label", rounds=60),
    Case("cnn", rounds=30, fleet="testbed5"),
]


def main() -> None:
    arguments = parser_of(__doc__, "runs/optimizers").parse_args()
    print("| model | data | rate | rounds | a step's overhead | bound by | optimiser |", end="")
    print(" FedAvg | feedback |\n" + "|---" * 9 + "|")
    for case in CASES:
        for optimizer, (table, rates) in OPTIMIZERS.items():
            for rate in rates:
                tried = replace(case, rate=rate)
                name = f"{tried.name}-{optimizer.replace(' ', '-')}"
                found = compared(arguments, name, f"{tried.job}\n{table}", CONTROLLERS)
                cells = " | ".join([*tried.cells, optimizer])
                print(f"| {cells} | {accuracies(found, CONTROLLERS)} |", flush=True)


if __name__ == "__main__":
    main()
