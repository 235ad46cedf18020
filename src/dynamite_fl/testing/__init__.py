"""Checks for the authors of controllers.

Example:
    >>> from dynamite_fl.control.baselines.fedavg import FedAvg
    >>> from dynamite_fl.testing import CHECKS, check_controller
    >>> sorted(CHECKS)[:2]
    ['absent_clients', 'cohorts']

    ``check_controller(FedAvg())`` runs them all, which takes some seconds.
"""

from dynamite_fl.testing.controllers import CHECKS, check_controller

__all__ = ["CHECKS", "check_controller"]
