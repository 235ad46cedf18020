"""The server optimisers and ways to average, for use from Python; a job file names them."""

from dynamite_fl.training.averaging import (
    AVERAGINGS,
    Averaging,
    ClippedMean,
    GeometricMedian,
    Mean,
    Median,
    TrimmedMean,
    make_averaging,
)
from dynamite_fl.training.server_optimizer import (
    SERVER_OPTIMIZERS,
    Average,
    Extrapolation,
    FedAdam,
    FedAvgM,
    FedExP,
    FedYogi,
    ServerOptimizer,
    make_server,
)

__all__ = [
    "AVERAGINGS",
    "SERVER_OPTIMIZERS",
    "Average",
    "Averaging",
    "ClippedMean",
    "Extrapolation",
    "FedAdam",
    "FedAvgM",
    "FedExP",
    "FedYogi",
    "GeometricMedian",
    "Mean",
    "Median",
    "ServerOptimizer",
    "TrimmedMean",
    "make_averaging",
    "make_server",
]
