"""Writes what a compilation went through: one numbered file a stage, and a page that shows them all.

    folder/
      000-train_step/
        index.html             everything below to look at in a browser; needs no network
        00-traced.txt          the graph as captured
        01-simplify.txt ...    the graph after each pass that changed it; the last is what was fused
        ..-groups.txt, ..-kernels.txt, ..-plan.txt, ..-llvm.ll, ..-assembly.s (CUDA: ..-cuda.py, ..-ptx.ptx)
        graph.dot, graph.svg   the captured graph for Graphviz, and drawn (up to 1,000 nodes)

A file appears whole or not at all: it is written under another name and renamed. A fault while writing is a warning:
what is dumped for is not disturbed by it.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any, Final

from jitgrad.ir.graph import Graph
from jitgrad.ir.location import user_location
from jitgrad.ir.picture import to_dot, to_svg
from jitgrad.ir.printer import to_text

from .content import Compilation
from .html_page import page_html

_SUFFIXES: Final = {"llvm": ".ll", "assembly": ".s", "cuda": ".py", "ptx": ".ptx"}
_MOST_DRAWN: Final = 1000  # nodes; larger pictures are for the page, which folds
_LEVELS: Final = {"LLVM": "llvm", "assembly": "assembly", "CUDA source": "cuda", "PTX": "ptx"}


class DumpWriter:
    """An observer of one compilation.

    Called with a stage's name and its graph or text, it writes a file; called with "executable", the rest and the page.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.compilation = Compilation(name)
        self._count = 0
        self._last_graph = ""

    @classmethod
    def for_compilation(cls, folder: str | os.PathLike[str], name: str) -> DumpWriter | None:
        """A writer into a new numbered sub-folder of `folder`; None, after a warning, if there can't be one."""
        root = Path(folder)
        try:
            if root.is_file():
                raise NotADirectoryError(f"{root} is a file, and dumps go into a folder")
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
        except OSError as error:
            _warn(f"nothing of {name} is dumped: {error}")
            return None

    def __call__(self, stage: str, content: Any) -> None:
        try:
            if stage == "executable":
                self.finish(content)
            elif isinstance(content, Graph):
                self._graph(stage, content)
            else:
                self._stage(stage, str(content))
        except Exception as error:  # whatever it is, compiling goes on
            _warn(f"stage {stage} of {self.compilation.name} is not dumped: {type(error).__name__}: {error}")

    def _graph(self, stage: str, graph: Graph) -> None:
        text = to_text(graph, self.compilation.name)
        if text == self._last_graph:
            return  # a pass that changed nothing
        self._last_graph = text
        self.compilation.stages.append((stage, graph))
        if self._count == 0:
            self._write("graph.dot", to_dot(graph))
            if len(graph.nodes) <= _MOST_DRAWN:
                self._write("graph.svg", to_svg(graph))
        self._stage(stage, text)

    def finish(self, executable: Any = None, timing: Any = None) -> None:
        """Write what follows from the executable, if there is one, and the page."""
        self.compilation.executable = executable
        self.compilation.timing = timing
        if executable is None:
            self._write("index.html", page_html(self.compilation))
            return
        from .machine_code import EXCLUSIVE, kernel_texts, stage_texts  # code generation is loaded already

        with EXCLUSIVE:
            code = kernel_texts(executable)
            for stage, text in stage_texts(executable).items():
                self._stage(stage, text)
            for level, stage in _LEVELS.items():
                texts = [found[level] for found in code if level in found]
                if texts:
                    self._stage(stage, "\n".join(texts))
            self._write("index.html", page_html(self.compilation, code))

    def _stage(self, stage: str, text: str) -> None:
        self._write(f"{self._count:02d}-{_file_name(stage)}{_SUFFIXES.get(stage, '.txt')}", text)
        self._count += 1

    def _write(self, name: str, text: str) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}"
        temporary.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
        os.replace(temporary, self.folder / name)


def _warn(message: str) -> None:
    caller = user_location()
    if caller is None:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, RuntimeWarning, caller.code.co_filename, caller.line)


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_")[:80] or "graph"
