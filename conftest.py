"""Tests and examples that need an extra are left out where it is not installed."""

import os
from importlib.util import find_spec

# One torch thread per process, child processes included: two on busy cores can be much slower.
os.environ["OMP_NUM_THREADS"] = "1"

NEEDS = {
    "flwr": [
        "src/dynamite_fl/flower/*",
        "src/dynamite_fl/simulation/ray.py",
        "tests/flower/*",
        "tests/gallery/*",
        "tests/_cli/test_cluster.py",
        "tests/_cli/test_keys.py",
        "tests/_cli/test_node.py",
        "tests/_cli/test_serve.py",
        "tests/test_deploy.py",
        "tests/simulation/test_ray.py",
    ],
    "plotly": [
        "tests/_cli/test_report.py",
        "tests/report/test_write.py",
        "tests/report/test_browser.py",
    ],
    "tensorboard": ["src/dynamite_fl/tracking/tensorboard.py", "tests/tracking/test_track.py"],
    "matplotlib": [
        "src/dynamite_fl/experiments/figure.py",
        "tests/_cli/test_experiment.py",
        "tests/experiments/test_results.py",
        "tests/experiments/test_summary.py",
        "tests/experiments/test_figure.py",
    ],
    "torchmetrics": ["tests/gallery/test_examples.py"],
    "mlflow": ["src/dynamite_fl/tracking/mlflow.py", "tests/tracking/test_track.py"],
}
collect_ignore_glob = [
    path for module, paths in NEEDS.items() if find_spec(module) is None for path in paths
]
