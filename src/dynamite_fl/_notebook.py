"""An output below a notebook's cell that is redrawn in place."""

import importlib
import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType

_SECONDS_BETWEEN_DRAWINGS = 0.5
_WIDTH = 80  # columns


@dataclass
class NotebookDisplay:
    """An output of a notebook's cell that is replaced in place, and kept as it is at the end.

    It needs IPython, which every notebook has, and no widgets.

    Attributes:
        picture: Returns what to show.
    """

    picture: Callable[[], RenderableType]
    _handle: Any = None
    _drawn: float = -math.inf

    def start(self) -> None:
        """Show the output below the cell."""
        display = importlib.import_module("IPython.display").display
        self._handle = display(self._data(), raw=True, display_id=True)

    def refresh(self) -> None:
        """Show the present picture, unless the last one is very recent."""
        if time.monotonic() - self._drawn >= _SECONDS_BETWEEN_DRAWINGS:
            self._draw()

    def stop(self) -> None:
        """Show the last picture."""
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._handle.update(self._data(), raw=True)

    def _data(self) -> dict[str, str]:
        """Return the picture as HTML, and as text for what shows no HTML."""
        page = Console(file=io.StringIO(), width=_WIDTH, record=True, highlight=False)
        page.is_jupyter = False  # it is exported, not displayed
        page.print(self.picture())
        code = '<pre style="line-height:1.3;white-space:pre-wrap">{code}</pre>'
        html = page.export_html(inline_styles=True, code_format=code, clear=False)
        return {"text/html": html, "text/plain": page.export_text()}
