"""Where an extra is not installed, what needs it is left out."""

from importlib.util import find_spec

FLOWER = [
    "src/dynamite_fl/engine/flower/*",
    "src/dynamite_fl/flower.py",
    "src/dynamite_fl/flower_command.py",
    "tests/engine/flower/*",
]
FIGURES = [
    "src/dynamite_fl/report/figure.py",
    "tests/experiments/test_command.py",
    "tests/experiments/test_results.py",
    "tests/experiments/test_smoke.py",
    "tests/report/test_figure.py",
]
collect_ignore_glob = [
    *([] if find_spec("flwr") else FLOWER),
    *([] if find_spec("matplotlib") else FIGURES),
]
