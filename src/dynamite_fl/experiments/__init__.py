"""The paper's figures and tables, by name: what to run, what it claims, whether it holds."""

NAMES = (  # in the paper's order
    "optimal-tau",
    "batch-sizes",
    "online-accuracy",
    "online-cost-time",
    "ablation",
    "sampling",
    "baselines-by-sampling",
    "burst-loss",
    "stream-table",
    "stream-cost-time",
    "buffer-sizes",
    "tau-and-batch",
)
