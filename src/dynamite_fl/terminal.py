"""What a person sees of a plan."""

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dynamite_fl.plan_report import PlanReport
from dynamite_fl.records import FloatArray, Plan

_MOST_ROWS = 30  # clients in a table; more are summed up
_BLOCKS = " ▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 60
_CURVE_LEVELS = 6
_CURVE_RANGE = 30.0  # worse bounds than so many times the best would flatten the rest


def show_plan(console: Console, report: PlanReport) -> None:
    """Print a plan, what binds it, its batch sizes and what else one could do."""
    clients = _client_table if len(report.job.fleet) <= _MOST_ROWS else _client_summary
    for part in (_headline(report), clients(report), _alternatives(report), _curve(report)):
        console.print(part)
        console.print()


def _headline(report: PlanReport) -> RenderableType:
    plan, limits = report.plan, report.job.limits
    sizes = plan.batch_sizes
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    grid.add_row("local steps", f"[bold]{plan.local_steps}[/bold]")
    grid.add_row(
        "batch sizes",
        f"[bold]{sizes.min():,} to {sizes.max():,}[/bold], {sizes.mean():,.1f} on average",
    )
    chosen = ", chosen too" if limits.rounds is None else ""
    grid.add_row("rounds", f"[bold]{plan.rounds:,}[/bold]{chosen}")
    grid.add_row("seconds", _spent(plan.seconds, limits.deadline))
    grid.add_row("cost", _spent(plan.cost, limits.budget))
    grid.add_row("bound", f"[bold]{plan.bound:.4g}[/bold] on the loss gap that is left at the end")
    grid.add_row("binding", _binding(report))
    title = Text.from_markup(f"[bold]The best plan for {len(report.job.fleet):,} devices[/bold]")
    return Group(title, grid)


def _spent(used: float, limit: float) -> Text:
    if np.isinf(limit):
        return Text(f"{used:,.1f}, no limit")
    share = used / limit
    filled = round(20 * share)
    return Text.assemble(
        f"{used:>10,.1f} of {limit:>10,.1f}  ",
        ("━" * filled, "cyan"),
        ("━" * (20 - filled), "dim"),
        f" {share:4.0%}",
    )


def _binding(report: PlanReport) -> str:
    if not report.plan.binding:
        return "nothing: more would not help"
    held = report.held_by()
    words = {
        "budget": "the budget, not a sample more is paid for",
        "deadline": f"the deadline, which holds {held.count('deadline'):,} clients",
        "samples": f"the data, {held.count('samples'):,} clients use all they have",
        "buffer_size": f"the buffer, {held.count('buffer_size'):,} clients use all they store",
        "max_local_steps": "max_local_steps",
    }
    return "; ".join(words[limit] for limit in report.plan.binding)


def _client_table(report: PlanReport) -> RenderableType:
    fleet = report.job.fleet
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("client")
    for heading in ("samples", "variance", "samples/s", "comm s", "batch", "round s"):
        table.add_column(heading, justify="right")
    table.add_column("held by")
    held, seconds = report.held_by(), report.round_seconds()
    for i in range(len(fleet)):
        table.add_row(
            Text(fleet.label(i)),
            f"{fleet.samples[i]:,.0f}",
            f"{fleet.gradient_variance[i]:.3g}",
            f"{fleet.samples_per_second[i]:,.0f}",
            f"{fleet.comm_seconds[i]:.2f}",
            f"[bold]{report.plan.batch_sizes[i]:,}[/bold]",
            f"{seconds[i]:.2f}",
            held[i].replace("_", " "),
        )
    return table


def _client_summary(report: PlanReport) -> RenderableType:
    sizes = report.plan.batch_sizes
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    shares = (0, 10, 25, 50, 75, 90, 100)
    for heading in ("least", "10 %", "25 %", "median", "75 %", "90 %", "most"):
        table.add_column(heading, justify="right")
    table.add_row("batch size", *(f"{size:,.0f}" for size in np.percentile(sizes, shares)))
    seconds = np.percentile(report.round_seconds(), shares)
    table.add_row("round s", *(f"{second:.2f}" for second in seconds))
    edges = np.unique(np.geomspace(sizes.min(), sizes.max() + 1, 11).astype(np.int64))
    counts, _ = np.histogram(sizes, bins=edges)
    histogram = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    histogram.add_column("batch size", justify="right")
    histogram.add_column("clients", justify="right")
    histogram.add_column("")
    for low, high, count in zip(edges[:-1], edges[1:] - 1, counts, strict=True):
        bounds = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        histogram.add_row(
            bounds, f"{count:,}", Text("█" * round(40 * count / counts.max()), "cyan")
        )
    return Group(table, Text(), histogram)


def _alternatives(report: PlanReport) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("under the same limits")
    for heading in ("local steps", "batch", "rounds", "seconds", "cost", "bound"):
        table.add_column(heading, justify="right")
    mean = f"⌀ {report.plan.batch_sizes.mean():,.1f}"
    table.add_row("[bold]this plan[/bold]", *_figures(report.plan, mean))
    table.add_row(
        "one batch size for all", *_figures(report.uniform, f"{report.uniform.batch_sizes[0]:,}")
    )
    if report.fedavg is None:
        table.add_row("FedAvg's default", "2", "60", "0", "", "", "not one round fits")
    else:
        batch = f"{report.fedavg.batch_sizes.max():,}"
        table.add_row("FedAvg's default", *_figures(report.fedavg, batch))
    return table


def _figures(plan: Plan, batch: str) -> tuple[str, ...]:
    return (
        f"{plan.local_steps}",
        batch,
        f"{plan.rounds:,}",
        f"{plan.seconds:,.1f}",
        f"{plan.cost:,.1f}",
        f"{plan.bound:.4g}",
    )


def _curve(report: PlanReport) -> RenderableType:
    """The least bound over local steps: bars on a logarithmic scale, the plan's marked."""
    near = np.flatnonzero(report.bounds <= _CURVE_RANGE * report.bounds.min())
    best = int(np.flatnonzero(report.local_steps == report.plan.local_steps)[0])
    stride = -(-(near[-1] + 1 - near[0]) // _CURVE_WIDTH)
    shown = np.arange(near[0] + (best - near[0]) % stride, near[-1] + 1, stride)
    steps, bounds = report.local_steps[shown], report.bounds[shown]
    place = int(np.flatnonzero(shown == best)[0])
    width = min(3, _CURVE_WIDTH // shown.size)
    lines = [Text("bound over local steps, logarithmic", style="dim")]
    heights = _heights(bounds)
    for level in reversed(range(_CURVE_LEVELS)):
        label = {_CURVE_LEVELS - 1: f"{bounds.max():.3g}", 0: f"{bounds.min():.3g}"}.get(level, "")
        line = Text(f"{label:>9} ", style="dim")
        for column, height in enumerate(heights):
            block = _BLOCKS[int(np.clip(height - 8 * level, 0, 8))]
            line.append(block * width, style="bold green" if column == place else "cyan")
        lines.append(line)
    mark = " " * (10 + place * width) + "▲" * width
    lines.append(Text(f"{mark} {report.plan.local_steps}", style="bold green"))
    lines.append(Text(f"{'':10}local steps {steps[0]} to {steps[-1]}", style="dim"))
    return Group(*lines)


def _heights(bounds: FloatArray) -> FloatArray:
    """Eighths of a line for each bar, at least one."""
    logs = np.log(np.maximum(bounds, 1e-300))
    share = (logs - logs.min()) / max(float(np.ptp(logs)), 1e-9)
    return np.asarray(np.round(1 + share * (8 * _CURVE_LEVELS - 1)))
