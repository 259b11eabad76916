"""Writes what a compilation went through, one numbered file a stage.

    folder/
      000-train_step/
        00-traced.txt          the graph as captured
        01-simplify.txt ...    the graph after each pass that changed it; the last is what was fused
        ..-groups.txt, ..-kernels.txt, ..-plan.txt, ..-llvm.ll, ..-assembly.s
        graph.svg, graph.dot   a picture of the captured graph (laid out by Graphviz where that is installed)

A file appears whole or not at all: it is written under another name and renamed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from jitgrad.ir.graph import Graph
from jitgrad.ir.picture import to_dot, to_svg
from jitgrad.ir.printer import to_text

_SUFFIXES = {"llvm": ".ll", "assembly": ".s"}


class DumpWriter:
    """An observer of one compilation. Calling it with a stage's name and its graph or text writes a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._count = 0
        self._last_graph = ""

    @classmethod
    def for_compilation(cls, folder: str | os.PathLike[str], name: str) -> DumpWriter:
        """A writer into a new numbered sub-folder of `folder`."""
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in root.iterdir())
        while True:
            sub = root / f"{number:03d}-{_file_name(name)}"
            try:
                sub.mkdir()
            except FileExistsError:
                number += 1
                continue
            return cls(sub, name)

    def __call__(self, stage: str, content: Any) -> None:
        text = str(content)
        if isinstance(content, Graph):
            text = to_text(content, self.name)
            if text == self._last_graph:
                return  # a pass that changed nothing
            self._last_graph = text
            if self._count == 0:
                self._draw(content)
        self._write(f"{self._count:02d}-{_file_name(stage)}{_SUFFIXES.get(stage, '.txt')}", text)
        self._count += 1

    def _draw(self, graph: Graph) -> None:
        self._write("graph.dot", to_dot(graph))
        svg = to_svg(graph)
        if svg is not None:
            self._write("graph.svg", svg)

    def _write(self, name: str, text: str) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}"
        temporary.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
        os.replace(temporary, self.folder / name)


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_")[:80] or "graph"
