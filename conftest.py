"""Where flwr is not installed, what needs it is left out: it is an extra."""

from importlib.util import find_spec

FLOWER = [
    "src/dynamite_fl/engine/flower/*",
    "src/dynamite_fl/flower.py",
    "src/dynamite_fl/flower_command.py",
    "tests/engine/flower/*",
]
collect_ignore_glob = [] if find_spec("flwr") else FLOWER
