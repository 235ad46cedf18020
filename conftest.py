"""Where flwr is not installed, what needs it is left out: it is an extra."""

from importlib.util import find_spec

FLOWER = ["src/dynamite_fl/engine/flower/*", "tests/engine/flower/*"]
collect_ignore_glob = [] if find_spec("flwr") else FLOWER
