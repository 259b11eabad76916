"""What notebooks show of compiled functions, programs and pages."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jitgrad.ir.graph import Graph

_HEIGHT: Final = 640  # pixels


@dataclass(frozen=True)
class Page:
    """A page of HTML that stands by itself; notebooks show it in a frame."""

    html: str

    def save(self, path: Any) -> Path:
        """Write it to a file."""
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        frame = 'width="100%" style="border: 1px solid #ccc; border-radius: 6px" sandbox="allow-scripts"'
        return f'<iframe height="{_HEIGHT}" {frame} srcdoc="{html.escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"<page of {len(self.html)} characters: save(path) writes it>"


def described(text: str, graphs: Iterable[tuple[str, Graph]]) -> str:
    """A text, and below it graphs to unfold."""
    parts = [f"<pre>{html.escape(text)}</pre>"]
    for title, graph in graphs:
        picture = graph._repr_svg_()
        if picture is not None:
            shown = f'<div style="overflow: auto; max-height: {_HEIGHT}px">{picture}</div>'
            parts.append(f"<details><summary>{html.escape(title)}</summary>{shown}</details>")
    return "\n".join(parts)
