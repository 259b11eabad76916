"""One HTML file with everything in it: style, scripts and data. It asks nothing of the network."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .content import Compilation, Content

_FOLDER: Final = Path(__file__).parent / "web-page"
SCRIPTS: Final = (
    "data.js", "layout.js", "scene.js", "colors.js", "canvas.js", "outline.js", "details.js", "tables.js", "memory.js",
    "search.js", "main.js",
)  # fmt: skip
_LEVEL: Final = 6


def page_html(compilation: Compilation, code: Sequence[dict[str, str]] = ()) -> str:
    """The page of one compilation. `code[k]` are the texts of kernel `k` by level."""
    content = Content(compilation)
    data = content.data()
    data["summary"] = _summary(compilation)
    if compilation.executable is not None:
        from .execution import execution_data  # code generation is loaded: something was compiled

        data["execution"] = execution_data(compilation.executable, content.graphs[-1][1], compilation.timing)
    title = html.escape(f"{compilation.name} - jitgrad")
    blocks = {
        "TITLE": title,
        "STYLE": _part("page.css"),
        "DATA": packed(data),
        "CODE": packed(list(code)),
        "SCRIPT": "\n".join(map(_part, SCRIPTS)),
    }
    return re.sub("<!--([A-Z]+)-->", lambda found: blocks[found[1]], _part("page.html"))


def _summary(compilation: Compilation) -> dict[str, Any]:
    """The figures at the top of the page."""
    if compilation.executable is None:
        return {}
    stats = compilation.executable.stats
    return {
        "kernels": stats.kernels, "compiled": stats.compiled, "bytes": stats.bytes, "flops": stats.flops,
        "arena": stats.arena_bytes, "stages_ms": {k: round(v, 2) for k, v in stats.stages_ms.items()},
    }  # fmt: skip


def packed(data: Any) -> str:
    """JSON, compressed, in base64: what can stand between any two tags.

    >>> unpacked(packed({"a": [1, "</script>"]}))
    {'a': [1, '</script>']}
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), _LEVEL)).decode()


def unpacked(text: str) -> Any:
    """The inverse of `packed`."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _part(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
