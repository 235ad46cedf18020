"""The server optimisers, for use from Python; a job file names them instead."""

from dynamite_fl.training.server_optimizer import (
    SERVER_OPTIMIZERS,
    Average,
    FedAdam,
    FedAvgM,
    FedExP,
    FedYogi,
    ServerOptimizer,
    make_server,
)

__all__ = [
    "SERVER_OPTIMIZERS",
    "Average",
    "FedAdam",
    "FedAvgM",
    "FedExP",
    "FedYogi",
    "ServerOptimizer",
    "make_server",
]
