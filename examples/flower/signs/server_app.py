"""The app of the server: plain Flower, except for ``train``."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from dynamite_fl import Limits
from dynamite_fl.flower import train
from signs.task import make_task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train within two minutes and a budget, with a batch size for each node."""
    rounds, clients = int(context.run_config["rounds"]), int(context.run_config["clients"])
    limits = Limits(
        rounds=rounds, deadline=120, budget=100, cost_per_sample=0.001, cost_per_round=1
    )
    folder = str(context.run_config["folder"])
    train(grid, make_task(0), limits, clients=clients, learning_rate=0.1, folder=folder)
