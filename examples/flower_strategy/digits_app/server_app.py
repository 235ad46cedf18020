"""The app of the server: FedAvg, within limits."""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits_app.task import Net
from dynamite_fl import Limits
from dynamite_fl.flower import WithinLimits

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train until the deadline, the budget or the rounds are used up."""
    config = context.run_config
    strategy = WithinLimits(
        FedAvg(),
        limits=Limits(
            deadline=float(config["deadline"]),
            budget=float(config["budget"]),
            rounds=int(config["rounds"]),
            cost_per_sample=0.001,
            cost_per_round=1,
        ),
        learning_rate=0.05,
        controller=str(config["controller"]),
    )
    result = strategy.start(grid, ArrayRecord(Net().state_dict()))
    torch.save(result.arrays.to_torch_state_dict(), "digits.pt")
    last = strategy.history[-1]
    print(f"{len(strategy.history)} rounds, ended by the {strategy.stopped_by}: {last.metrics}")
