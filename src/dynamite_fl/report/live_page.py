"""The page of ``dynamite watch``: what a report shows, as the run folders are at present."""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from string import Template
from urllib.parse import quote

from dynamite_fl._json import json_ready
from dynamite_fl.report.page import Page, for_script, text_file
from dynamite_fl.report.read_runs import FoundRuns, find_runs, run_folders
from dynamite_fl.report.write import differences, page_of
from dynamite_fl.training.run_folder import RunFolder


@dataclass(frozen=True)
class State:
    """A page as it is at present.

    Attributes:
        tag: A text that changes whenever the page does.
        page: The page.
        links: Markup with links to the single runs; empty if there is only one.
    """

    tag: str
    page: Page
    links: str

    def html(self) -> str:
        """Return the whole page. Its scripts and its style have addresses of their own."""
        page = self.page
        return Template(text_file("live.html")).substitute(
            title=escape(page.title),
            above=escape(page.above),
            below=page.below,
            links=f'<nav id="links">{self.links}</nav>',
            body=page.body,
            version=escape(version("dynamite-fl")),
            charts=for_script(page.chart_data),
        )

    def json(self) -> str:
        """Return what the page's script needs to show another state."""
        page = self.page
        parts = {
            "title": page.title,
            "above": page.above,
            "below": page.below,
            "links": self.links,
            "body": page.body,
            "charts": page.chart_data,
        }
        return json.dumps(json_ready(parts), allow_nan=False)


@dataclass
class LivePage:
    """Pages about the runs in some folders: one of all runs, and one of each run.

    Files are read again only after they have changed. Several threads may ask at the same time.

    Attributes:
        paths: Run folders, or folders that hold run folders.
    """

    paths: Sequence[Path]
    _states: dict[str, State] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self, run: str = "") -> State | None:
        """Return the page of a run as it is at present; None if there is no such run.

        Args:
            run: The name of the run; empty for the page of all runs. It is compared with the
                names of the runs that were found and never used as a path.
        """
        with self._lock:
            tag = self._tag(run)
            state = self._states.get(run)
            if state is None or state.tag != tag:
                state = self._read(run, tag)
                if state is None:
                    return None
                self._states[run] = state
            return state

    def _read(self, run: str, tag: str) -> State | None:
        found = find_runs(self.paths)
        names = [each.name for each in found.runs]
        links = _links(names, run) if len(names) > 1 else ""
        if run:
            chosen = [each for each in found.runs if each.name == run]
            return State(tag, page_of(chosen[:1], (), run), links) if chosen else None
        return State(tag, self._overview(found), links)

    def _overview(self, found: FoundRuns) -> Page:
        title = self.paths[0].resolve().name if len(self.paths) == 1 else "Comparison"
        if not found.runs:
            page = Page(title, below="There is no run yet. It is shown as soon as it begins.")
            page.notes(found.notes)
            return page
        return page_of(found.runs, [*found.notes, *differences(found.runs)], title)

    def _tag(self, run: str) -> str:
        """Return a digest of the sizes and times of all files that the pages are made of."""
        digest = hashlib.sha256(run.encode(errors="replace"))
        for path in self.paths:
            for folder in map(RunFolder, run_folders(path)):
                for file in (folder.job, folder.history, folder.ended, folder.nodes):
                    digest.update(f"{file}|{_stamp(file)}\n".encode(errors="replace"))
        return f'"{digest.hexdigest()[:32]}"'


def _stamp(file: Path) -> str:
    try:
        status = file.stat()
    except OSError:
        return "missing"
    return f"{status.st_mtime_ns} {status.st_size}"


def _links(names: Sequence[str], current: str) -> str:
    """Return links to the page of all runs and to that of each run."""

    def link(name: str, words: str) -> str:
        address = f"/?run={quote(name, safe='')}" if name else "/"
        mark = ' aria-current="page"' if name == current else ""
        return f'<li><a href="{address}"{mark}>{escape(words)}</a></li>'

    items = [link("", "all runs"), *(link(name, name) for name in names)]
    return f'<ul class="links">{"".join(items)}</ul>'
