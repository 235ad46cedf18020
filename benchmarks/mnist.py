"""DYNAMITE beside the baselines on MNIST, at the paper's proportions of limits.

    python benchmarks/mnist.py --data-dir DATA [--seeds 3] [--runs runs/mnist] [--hindsight]
        [--models softmax svm] [--rate 0.01]

Softmax regression, SVM and perceptron on 20 machines (vm20), Dirichlet(0.3) and by label, 200
rounds. FedAvg's default takes about 256 s and costs 640. As in the paper's figure, cost-bound
limits are 1.04 times that cost and 1.3 times that time; time-bound ones are twice the cost and
half the time. Finished runs are kept, so that the command can be repeated. It prints a table of
test accuracies in Markdown.
"""

from comparing import accuracies, compared, hindsight, parser_of

OURS = ["dynamite-feedback", "dynamite"]
CONTROLLERS = [*OURS, "fedavg", "no-straggler", "dbfl", "dynamic-tau"]
MODELS = ["softmax", "svm", "perceptron"]
PARTITIONS = {
    "Dirichlet 0.3": 'kind = "dirichlet"\nalpha = 0.3',
    "by label": 'kind = "wang"\ncase = 2',
}
LIMITS = {"cost": (333.0, 667.0), "time": (133.0, 1333.0)}

JOB = """
devices = "vm20"

[task]
model = "{model}"
dataset = "mnist"

[partition]
{partition}

[limits]
rounds = 200
deadline = {deadline}
budget = {budget}
cost_per_sample = 0.0005
cost_per_round = 2

[controller]
name = "dynamite"

[training]
learning_rate = {rate}
evaluate_every = 20
"""


def main() -> None:
    parser = parser_of(__doc__, "runs/mnist")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hindsight", action="store_true")
    arguments = parser.parse_args()
    looks = ["best fixed", *(f"{name}, of the way" for name in OURS)] if arguments.hindsight else []
    headings = ["model", "data", "bound by", *CONTROLLERS, *looks]
    print(f"| {' | '.join(headings)} |")
    print("|---" * len(headings) + "|")
    for model in arguments.models:
        for partition, table in PARTITIONS.items():
            for bound, (deadline, budget) in LIMITS.items():
                job = JOB.format(
                    model=model,
                    partition=table,
                    deadline=deadline,
                    budget=budget,
                    rate=arguments.rate,
                )
                name = f"{model}-{partition}-{bound}".replace(" ", "-")
                more = ["--hindsight"] if arguments.hindsight else []
                found = compared(arguments, name, job, CONTROLLERS, *more)
                cells = [model, partition, bound, accuracies(found, CONTROLLERS)]
                cells += [hindsight(found, OURS)] if arguments.hindsight else []
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
