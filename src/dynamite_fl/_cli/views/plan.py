"""What a person sees of a plan: limits, batch sizes, alternatives and the bound over steps."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from dynamite_fl._cli.views.tables import plain_table
from dynamite_fl._format import count, number
from dynamite_fl._progress import NARROW, labelled_rows, limit_used
from dynamite_fl.plan.alternatives import PlanReport
from dynamite_fl.records import FloatArray, IntArray, Plan

_MOST_ROWS = 30  # devices in a table; more devices are summarized
_VERY_NARROW = 60  # columns of a terminal below which tables show only the essentials
_BLOCKS = " ▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 60  # characters
_CURVE_LEVELS = 6  # lines
_CURVE_RANGE = 30.0  # bounds above this multiple of the best are not drawn


def show_plan(console: Console, report: PlanReport, notes: Sequence[str] = ()) -> None:
    """Print a plan, its limits, its batch sizes and the alternatives, and then the notes."""
    width = console.width
    few = len(report.fleet) <= _MOST_ROWS
    parts = (
        _headline(report, width),
        _device_table(report, width) if few else _distribution(report, width),
        _alternatives(report, width),
        _curve(report, min(_CURVE_WIDTH, max(10, width - 11))),
    )
    for part in parts:
        console.print(part)
        console.print()
    for note in notes:
        console.print(note, style="dim", markup=False)


def _headline(report: PlanReport, width: int) -> RenderableType:
    plan, limits = report.plan, report.limits
    sizes = plan.batch_sizes
    rows = labelled_rows()
    rows.add_row("local steps", f"[bold]{plan.local_steps}[/bold] in each round")
    span = f"{sizes.min():,} to {sizes.max():,}" if sizes.min() < sizes.max() else f"{sizes[0]:,}"
    rows.add_row("batch sizes", f"[bold]{span}[/bold], {sizes.mean():,.1f} on average")
    chosen = ", the best number" if limits.rounds is None else ""
    rows.add_row("rounds", f"[bold]{plan.rounds:,}[/bold]{chosen}")
    rows.add_row("seconds", limit_used(plan.seconds, limits.deadline, width))
    rows.add_row("cost", limit_used(plan.cost, limits.budget, width))
    rows.add_row("bound", f"[bold]{plan.bound:.4g}[/bold] on the loss gap left at the end")
    rows.add_row("limited by", _limited_by(report))
    devices = count(len(report.fleet), "device")
    return Group(Text(f"The best plan for {devices}", style="bold"), rows)


def _limited_by(report: PlanReport) -> str:
    held = report.held_by()
    words = {
        "budget": "the budget, which pays for no more samples",
        "deadline": f"the deadline{_for_devices(held.count('deadline'))}",
        "samples": "the data: some devices use all of their samples",
        "buffer_size": "the buffers: some devices use all that they hold",
        "max_local_steps": "the most local steps that are allowed",
    }
    return "; ".join(words[limit] for limit in report.plan.binding) or "nothing"


def _for_devices(devices: int) -> str:
    return f", for {count(devices, 'device')}" if devices else ", which leaves no time for more"


def _device_table(report: PlanReport, width: int) -> RenderableType:
    fleet, held, seconds = report.fleet, report.held_by(), report.round_seconds()
    details = ("variance", "samples/s", "comm s") if width >= NARROW else ()
    samples = ("samples",) if width >= _VERY_NARROW else ()
    table = plain_table("device", *samples, *details, "batch", "round s")
    table.add_column("limited by", no_wrap=True)
    for i in range(len(fleet)):
        cells = {
            "samples": f"{fleet.samples[i]:,.0f}",
            "variance": f"{fleet.gradient_variance[i]:.3g}",
            "samples/s": f"{fleet.samples_per_second[i]:,.0f}",
            "comm s": f"{fleet.comm_seconds[i]:.2f}",
        }
        table.add_row(
            Text(fleet.label(i)),
            *(cells[name] for name in (*samples, *details)),
            f"[bold]{report.plan.batch_sizes[i]:,}[/bold]",
            f"{seconds[i]:.2f}",
            held[i].replace("_", " "),
        )
    return table


def _distribution(report: PlanReport, width: int) -> RenderableType:
    """Return percentiles of batch sizes and round times, and a histogram of batch sizes."""
    sizes = report.plan.batch_sizes
    percentiles = {0: "least", 10: "10%", 25: "25%", 50: "median", 75: "75%", 90: "90%"}
    percentiles |= {100: "most"}
    if width < NARROW:
        percentiles = {share: percentiles[share] for share in (0, 50, 100)}
    shares = list(percentiles)
    table = plain_table("", *percentiles.values())
    table.add_row("batch size", *(number(size, 0) for size in np.percentile(sizes, shares)))
    seconds = np.percentile(report.round_seconds(), shares)
    table.add_row("round s", *(number(second, 2) for second in seconds))
    hint = Text("\nTo get the batch size of every device: --csv FILE", "dim")
    return Group(table, Text(), _histogram(sizes, max(10, min(40, width - 35))), hint)


def _histogram(sizes: IntArray, bar_width: int) -> RenderableType:
    edges = np.unique(np.geomspace(sizes.min(), sizes.max() + 1, 11).astype(np.int64))
    counts, _ = np.histogram(sizes, bins=edges)
    table = plain_table("batch size", "devices")
    table.columns[0].justify = "right"
    table.add_column("")
    for low, high, devices in zip(edges[:-1], edges[1:] - 1, counts, strict=True):
        bounds = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        bar = Text("█" * round(bar_width * devices / counts.max()), "cyan")
        table.add_row(bounds, f"{devices:,}", bar)
    return table


def _alternatives(report: PlanReport, width: int) -> RenderableType:
    """Return what other plans reach within the same limits, and by how much they are worse."""
    spent = ("seconds", "cost") if width >= NARROW else ()
    decided = ("steps", "batch", "rounds") if width >= _VERY_NARROW else ()
    table = plain_table("compared", *decided, *spent, "bound", "worse by")
    mean = f"⌀ {report.plan.batch_sizes.mean():,.1f}"
    plans = [("this plan", report.plan, mean)]
    name = "same batch for all" if report.limits.rounds else "same batch and rounds"
    plans.append((name, report.uniform, f"{report.uniform.batch_sizes[0]:,}"))
    if report.fedavg is not None:
        plans.append(("FedAvg's default", report.fedavg, f"{report.fedavg.batch_sizes.max():,}"))
    for name, plan, batch in plans:
        cells = {
            "steps": f"{plan.local_steps}",
            "batch": batch,
            "rounds": f"{plan.rounds:,}",
            "seconds": number(plan.seconds, 0),
            "cost": number(plan.cost, 0),
        }
        shown = [cells[heading] for heading in (*decided, *spent)]
        table.add_row(name, *shown, f"{plan.bound:.4g}", _worse(plan, report.plan))
    if report.fedavg is None:
        cells = {"steps": "2", "batch": "60", "rounds": "0"}
        shown = [cells.get(heading, "") for heading in (*decided, *spent)]
        table.add_row("FedAvg's default", *shown, "does not fit")
    return table


def _worse(plan: Plan, best: Plan) -> str:
    if plan is best or best.bound == 0:
        return ""
    return f"{plan.bound / best.bound - 1:,.2%}"


def _curve(report: PlanReport, most: int) -> RenderableType:
    """Return a bar chart of the least bound over local steps, with the plan's own marked.

    The scale is logarithmic, and there are at most ``most`` bars.
    """
    near = np.flatnonzero(report.bounds <= _CURVE_RANGE * report.bounds.min())
    if near.size == 1:
        return Text("No other number of local steps comes near.", style="dim")
    best = int(np.flatnonzero(report.local_steps == report.plan.local_steps)[0])
    stride = -(-(near[-1] + 1 - near[0]) // most)
    shown = np.arange(near[0] + (best - near[0]) % stride, near[-1] + 1, stride)
    steps, bounds = report.local_steps[shown], report.bounds[shown]
    place = int(np.flatnonzero(shown == best)[0])
    width = min(3, most // shown.size)
    lines = [Text("bound over local steps, on a logarithmic scale", style="dim")]
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
    """Return the height of each bar in eighths of a line, at least one."""
    logs = np.log(np.maximum(bounds, 1e-300))
    share = (logs - logs.min()) / max(float(np.ptp(logs)), 1e-9)
    return np.asarray(np.round(1 + share * (8 * _CURVE_LEVELS - 1)))
