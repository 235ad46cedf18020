"""Where an extra is not installed, what needs it is left out."""

from importlib.util import find_spec

NEEDS = {
    "flwr": [
        "src/dynamite_fl/engine/flower/*",
        "src/dynamite_fl/flower.py",
        "src/dynamite_fl/flower_command.py",
        "tests/engine/flower/*",
    ],
    "plotly": ["tests/report/test_report.py", "tests/report/test_browser.py"],
    "tensorboard": ["src/dynamite_fl/report/tensorboard.py", "tests/report/test_tracking.py"],
    "matplotlib": [
        "src/dynamite_fl/report/figure.py",
        "tests/experiments/test_command.py",
        "tests/experiments/test_results.py",
        "tests/experiments/test_smoke.py",
        "tests/report/test_figure.py",
    ],
    "mlflow": ["src/dynamite_fl/report/mlflow.py", "tests/report/test_tracking.py"],
}
collect_ignore_glob = [
    path for module, paths in NEEDS.items() if find_spec(module) is None for path in paths
]
