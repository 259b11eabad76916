"""Dumps: what compiling made of a function, as text for each stage and as a page to look at.

    jg.compile(f, dump="folder")      each compilation of `f`, as it happens
    JITGRAD_DUMP=folder               every compilation of a program
    f.dump("folder", measure=True)    what has been compiled of `f` so far; the same of an exported program
    jg.dump.write(what, "folder")     any of these, an executable, or a graph
    jg.dump.page(what)                the page, for a notebook
    jg.dump.draw, to_svg, to_dot, to_networkx, measure

Each compilation gets a numbered sub-folder; `index.html` in it needs no network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jitgrad.ir.config import config
from jitgrad.ir.graph import Graph

if TYPE_CHECKING:
    from pathlib import Path

    from .notebook import Page

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


def page(what: Any, *, measure: bool = False, sizes: Mapping[str, int] | None = None) -> Page:
    """The page that `write` writes, of the newest compilation of `what`: notebooks show it, `save(path)` writes it.

    >>> import jitgrad as jg
    >>> f = jg.compile(lambda x: x.tanh().sum())
    >>> _ = f(jg.ones(8))
    >>> jg.dump.page(f).html[:15]
    '<!DOCTYPE html>'
    """
    from .afterwards import page_of

    return page_of(what, measure, sizes)


def graph_of(what: Any) -> Graph:
    """The graph of what was captured last of a compiled function or module, of an exported program, of an executable.

    >>> import jitgrad as jg
    >>> f = jg.compile(lambda x: x.tanh().sum())
    >>> _ = f(jg.ones(8))
    >>> print(jg.dump.draw(f))
    o  %x f32[8]
    *  %1 f32[8] = tanh(%x)
    *  %2 f32[] = sum[axes=(0,)](%1)
    *  return %2
    """
    if isinstance(what, Graph):
        return what
    if hasattr(what, "symbolic_graph"):
        return what.symbolic_graph  # type: ignore[no-any-return]
    from .afterwards import newest_graph

    return newest_graph(what)


def draw(what: Any) -> str:
    """The graph of `what` drawn in text: see `jitgrad.ir.picture.draw`."""
    return _pictures().draw(graph_of(what))  # type: ignore[no-any-return]


def to_dot(what: Any) -> str:
    """The graph of `what` in Graphviz's language."""
    return _pictures().to_dot(graph_of(what))  # type: ignore[no-any-return]


def to_svg(what: Any) -> str:
    """A picture of the graph of `what`, laid out without Graphviz."""
    return _pictures().to_svg(graph_of(what))  # type: ignore[no-any-return]


def to_networkx(what: Any) -> Any:
    """The graph of `what` as a `networkx.MultiDiGraph`: see `jitgrad.ir.picture.to_networkx`."""
    return _pictures().to_networkx(graph_of(what))


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


def _pictures() -> Any:
    """The module that draws, which loads when something is drawn."""
    from jitgrad.ir import picture

    return picture


Graph.drawing = staticmethod(to_svg)  # `ir.graph` can't know of pictures, which are made of graphs
