"""Dumps: what compiling made of a function, as text for each stage and as a page to look at.

    jg.compile(f, dump="folder")      each compilation of `f`, as it happens
    JITGRAD_DUMP=folder               every compilation of a program
    f.dump("folder", measure=True)    what has been compiled of `f` so far; the same of an exported program
    jg.dump.write(what, "folder")     any of these, an executable, or a graph

Each compilation gets a numbered sub-folder; `index.html` in it needs no network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jitgrad.ir.config import config
from jitgrad.ir.graph import Graph

if TYPE_CHECKING:
    from pathlib import Path

Observer = Callable[[str, Any], None]


def observer_for(folder: str | None, name: str) -> Observer | None:
    """A writer into a new sub-folder of `folder` or of `config.dump`; None if neither is set."""
    chosen = folder or config.dump
    if not chosen:
        return None
    from .writer import DumpWriter

    return DumpWriter.for_compilation(chosen, name)


def write(what: Any, folder: Any, *, measure: bool = False, sizes: Mapping[str, int] | None = None) -> list[Path]:
    """Write all that is known of `what` into new sub-folders of `folder`; these, in order.

    `what` is a compiled function or module, an exported program, an executable, or a graph. With `measure` its steps
    are run and timed, on made-up arguments: floats between 0 and 1, zeros elsewhere. `sizes` are the lengths of an
    exported program's dimensions; those not given are as at export.

    >>> import jitgrad as jg, tempfile
    >>> f = jg.compile(lambda x: x.tanh().sum())
    >>> _ = f(jg.ones(8))
    >>> (folder,) = jg.dump.write(f, tempfile.mkdtemp())
    >>> sorted(p.suffix for p in folder.iterdir())[:3]
    ['.dot', '.html', '.ll']
    """
    from .afterwards import write_all

    return write_all(what, folder, measure, sizes)


def measure(what: Any, *args: Any, **kwargs: Any) -> Any:
    """How long a call and each step in it take: a `Timing`, or a list of them for a function compiled several times.

    `what` is a compiled function or module, an exported program, or an executable. With arguments it is the path that
    serves them which is run, on copies, so that nothing changes; without them every one, on made-up arguments.

    >>> import jitgrad as jg
    >>> f = jg.compile(lambda x: x.tanh().sum())
    >>> _ = f(jg.ones(8))
    >>> (timing,) = jg.dump.measure(f)
    >>> len(timing.steps)
    1
    """
    from .afterwards import measure_all

    return measure_all(what, args, kwargs)


def _picture(graph: Graph) -> str:
    """What notebooks show of a graph."""
    from jitgrad.ir.picture import to_svg

    return to_svg(graph)


Graph.drawing = staticmethod(_picture)  # `ir.graph` can't know of pictures, which are made of graphs
