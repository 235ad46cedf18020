"""The controllers, for use from Python; a job file names them instead.

``Controller`` is what a controller of your own must offer, and
``dynamite_fl.testing.check_controller`` tries whether it does.
"""

from dynamite_fl.control.ablations import StaticTau, UniformBatches
from dynamite_fl.control.baselines.dbfl import DBFL
from dynamite_fl.control.baselines.dynamic_tau import DynamicTau
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.baselines.no_straggler import NoStraggler
from dynamite_fl.control.baselines.offline_cooptfl import CoOptFL
from dynamite_fl.control.baselines.uniform import Uniform
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.feedback import Feedback
from dynamite_fl.control.registry import CONTROLLERS, make_controller

__all__ = [
    "CONTROLLERS",
    "DBFL",
    "CoOptFL",
    "Controller",
    "DynamicTau",
    "Dynamite",
    "FedAvg",
    "Feedback",
    "NoStraggler",
    "StaticTau",
    "Uniform",
    "UniformBatches",
    "make_controller",
]
