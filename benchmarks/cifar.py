"""DYNAMITE beside the baselines: the paper's CNN on CIFAR-10, five devices (testbed5).

    python benchmarks/cifar.py --data-dir DATA [--seeds 2] [--runs runs/cifar] [--bounds cost]

Dirichlet(0.3), 100 rounds, learning rate 0.01. FedAvg's default takes about 90 s and costs 80.
Cost-bound limits are 1.04 times that cost and 1.3 times that time; time-bound ones are twice the
cost and half the time. On two free cores each bound takes about a quarter of an hour a seed.
"""

from comparing import accuracies, compared, parser_of

CONTROLLERS = ["dynamite-feedback", "dynamite", "fedavg", "no-straggler", "dbfl", "dynamic-tau"]
LIMITS = {"cost": (117.0, 83.0), "time": (45.0, 160.0)}

JOB = """
devices = "testbed5"

[task]
model = "cnn"
dataset = "cifar10"

[partition]
kind = "dirichlet"
alpha = 0.3

[limits]
rounds = 100
deadline = {deadline}
budget = {budget}
cost_per_sample = 0.0005
cost_per_round = 0.5

[controller]
name = "dynamic-tau"
phi = 5e-5

[training]
learning_rate = 0.01
evaluate_every = 20
"""


def main() -> None:
    parser = parser_of(__doc__, "runs/cifar")
    parser.add_argument("--bounds", nargs="+", default=[*LIMITS])
    arguments = parser.parse_args()
    headings = ["bound by", *CONTROLLERS]
    print(f"| {' | '.join(headings)} |")
    print("|---" * len(headings) + "|")
    for bound in arguments.bounds:
        deadline, budget = LIMITS[bound]
        job = JOB.format(deadline=deadline, budget=budget)
        found = compared(arguments, f"cnn-{bound}", job, CONTROLLERS)
        print(f"| {bound} | {accuracies(found, CONTROLLERS)} |", flush=True)


if __name__ == "__main__":
    main()
