"""What a person sees of a plan."""

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dynamite_fl.plan_report import PlanReport
from dynamite_fl.records import FloatArray, Plan

_MOST_ROWS = 30  # devices in a table; more are summed up
_NARROW = 78  # columns below which a table has fewer of its own
_BLOCKS = " ▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 60
_CURVE_LEVELS = 6
_CURVE_RANGE = 30.0  # worse bounds than so many times the best would flatten the rest


def show_plan(console: Console, report: PlanReport) -> None:
    """Print a plan, what binds it, its batch sizes and what else one could do."""
    narrow = console.width < _NARROW
    few = len(report.job.fleet) <= _MOST_ROWS
    parts = (
        _headline(report),
        _device_table(report, narrow) if few else _summary(report),
        _alternatives(report, narrow),
        _curve(report, min(_CURVE_WIDTH, max(10, console.width - 11))),
    )
    for part in parts:
        console.print(part)
        console.print()


def _headline(report: PlanReport) -> RenderableType:
    plan, limits = report.plan, report.job.limits
    sizes = plan.batch_sizes
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row("local steps", f"[bold]{plan.local_steps}[/bold] in each round")
    span = f"{sizes.min():,} to {sizes.max():,}" if sizes.min() < sizes.max() else f"{sizes[0]:,}"
    grid.add_row("batch sizes", f"[bold]{span}[/bold], {sizes.mean():,.1f} on average")
    chosen = ", the best number" if limits.rounds is None else ""
    grid.add_row("rounds", f"[bold]{plan.rounds:,}[/bold]{chosen}")
    grid.add_row("seconds", spent(plan.seconds, limits.deadline))
    grid.add_row("cost", spent(plan.cost, limits.budget))
    grid.add_row("bound", f"[bold]{plan.bound:.4g}[/bold] on the loss gap left at the end")
    grid.add_row("limited by", _limited_by(report))
    count = _count(len(report.job.fleet), "device")
    return Group(Text(f"The best plan for {count}", style="bold"), grid)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def spent(used: float, limit: float) -> Text:
    """How much of a limit is used, with a bar."""
    if np.isinf(limit):
        return Text(f"{used:>12,.1f}, no limit")
    share = used / limit
    filled = round(20 * share)
    return Text.assemble(
        f"{used:>12,.1f} of {limit:>12,.1f}  ",
        ("━" * filled, "cyan"),
        ("─" * (20 - filled), "dim"),
        f" {share:4.0%}",
    )


def _limited_by(report: PlanReport) -> str:
    held = report.held_by()
    words = {
        "budget": "the budget, which pays for no more samples",
        "deadline": f"the deadline{_for(held.count('deadline'))}",
        "samples": "the data, of which some devices use all they have",
        "buffer_size": "the buffers, of which some devices use all they hold",
        "max_local_steps": "the most local steps allowed",
    }
    return "; ".join(words[limit] for limit in report.plan.binding) or "nothing"


def _for(devices: int) -> str:
    return f", for {_count(devices, 'device')}" if devices else ", which leaves no time for more"


def _device_table(report: PlanReport, narrow: bool) -> RenderableType:
    fleet, held, seconds = report.job.fleet, report.held_by(), report.round_seconds()
    table = _table("device", "samples")
    if not narrow:
        for heading in ("variance", "samples/s", "comm s"):
            table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("batch", "round s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    for i in range(len(fleet)):
        speed = (
            f"{fleet.gradient_variance[i]:.3g}",
            f"{fleet.samples_per_second[i]:,.0f}",
            f"{fleet.comm_seconds[i]:.2f}",
        )
        table.add_row(
            Text(fleet.label(i)),
            f"{fleet.samples[i]:,.0f}",
            *(() if narrow else speed),
            f"[bold]{report.plan.batch_sizes[i]:,}[/bold]",
            f"{seconds[i]:.2f}",
            held[i].replace("_", " "),
        )
    return table


def _table(first: str, *headings: str) -> Table:
    """A table without lines: names on the left, numbers on the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _summary(report: PlanReport) -> RenderableType:
    sizes = report.plan.batch_sizes
    shares = (0, 10, 25, 50, 75, 90, 100)
    table = _table("", "least", "10 %", "25 %", "median", "75 %", "90 %", "most")
    table.add_row("batch size", *(f"{size:,.0f}" for size in np.percentile(sizes, shares)))
    seconds = np.percentile(report.round_seconds(), shares)
    table.add_row("round s", *(f"{second:.2f}" for second in seconds))
    edges = np.unique(np.geomspace(sizes.min(), sizes.max() + 1, 11).astype(np.int64))
    counts, _ = np.histogram(sizes, bins=edges)
    histogram = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    histogram.add_column("batch size", justify="right")
    histogram.add_column("devices", justify="right")
    histogram.add_column("")
    for low, high, count in zip(edges[:-1], edges[1:] - 1, counts, strict=True):
        bounds = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        bar = Text("█" * round(40 * count / counts.max()), "cyan")
        histogram.add_row(bounds, f"{count:,}", bar)
    return Group(table, Text(), histogram, Text("\nEach device's own: --csv FILE", "dim"))


def _alternatives(report: PlanReport, narrow: bool) -> RenderableType:
    """What other plans reach within the same limits, and how much worse that is."""
    spent = () if narrow else ("seconds", "cost")
    table = _table("compared", "steps", "batch", "rounds", *spent, "bound", "worse by")
    mean = f"⌀ {report.plan.batch_sizes.mean():,.1f}"
    plans = [("this plan", report.plan, mean)]
    name = "same batch for all" if report.job.limits.rounds else "same batch and rounds"
    plans.append((name, report.uniform, f"{report.uniform.batch_sizes[0]:,}"))
    if report.fedavg is not None:
        plans.append(("FedAvg's default", report.fedavg, f"{report.fedavg.batch_sizes.max():,}"))
    for name, plan, batch in plans:
        used = () if narrow else (f"{plan.seconds:,.0f}", f"{plan.cost:,.0f}")
        figures = (f"{plan.local_steps}", batch, f"{plan.rounds:,}", *used, f"{plan.bound:.4g}")
        table.add_row(name, *figures, _worse(plan, report.plan))
    if report.fedavg is None:
        table.add_row("FedAvg's default", "2", "60", "0", *("" for _ in spent), "does not fit")
    return table


def _worse(plan: Plan, best: Plan) -> str:
    if plan is best or best.bound == 0:
        return ""
    return f"{plan.bound / best.bound - 1:,.2%}"


def _curve(report: PlanReport, most: int) -> RenderableType:
    """The least bound over local steps: bars on a logarithmic scale, the plan's marked."""
    near = np.flatnonzero(report.bounds <= _CURVE_RANGE * report.bounds.min())
    if near.size == 1:
        return Text("no other number of local steps comes near", style="dim")
    best = int(np.flatnonzero(report.local_steps == report.plan.local_steps)[0])
    stride = -(-(near[-1] + 1 - near[0]) // most)
    shown = np.arange(near[0] + (best - near[0]) % stride, near[-1] + 1, stride)
    steps, bounds = report.local_steps[shown], report.bounds[shown]
    place = int(np.flatnonzero(shown == best)[0])
    width = min(3, most // shown.size)
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
