"""Exported programs: files that run with none of the code they were made from.

`jitgrad.export` is the function of that name, which carries `Dim` and `Program` as attributes; this package, which it
shares its name with, is loaded in part, and the rest of it when something is exported or read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .dims import Constraint, Dim

if TYPE_CHECKING:
    from .program import Program


def export(
    f: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Program:
    """Turn a function, a module or a whole training step into a program that runs without its code.

    The function is called with stand-ins for the arguments, several times if `dynamic` is given; no tensor is changed.
    What it does to tensors becomes the program; the tensors it reaches (parameters, buffers, optimizer state, random
    state) become the program's state, which calls of the program update as calls of the function would. Numbers that
    an optimizer reads anew at each step, such as `lr`, become keyword arguments with their present values as defaults.

    Args:
        f: what to call: a function, a method, a module, or any object with `__call__`.
        args: example arguments, a tuple; their types are those that the program takes.
        kwargs: example keyword arguments.
        dynamic: the axes whose length may vary: `{"x": {0: "batch"}}` by argument name and axis, or with an
            `export.Dim` for bounds. In containers, by keys on the way: `{"inputs": {"mask": {0: "batch"}}}`. Axes of
            one name have one length.
        metadata: a dict of anything that JSON can hold, kept in the program.
        name: the program's name; by default that of the function or class.

    Raises:
        CompileError: where the function does something that a program can't: it needs the value of a tensor in Python,
            or a dynamic size decides how often a loop runs, or ends up in numbers that can't be followed. The error
            names the line. Where Python compares sizes, the outcome becomes a constraint of the program.

    Example:
        >>> import jitgrad as jg
        >>> def scores(x, w):
        ...     return (x @ w).softmax(-1)
        >>> program = jg.export(scores, (jg.ones(2, 3), jg.ones(3, 4)), dynamic={"x": {0: "batch"}})
        >>> print(program.signature)
        scores(x: f32[batch,3], w: f32[3,4]) -> f32[batch,4]
        >>> program(jg.ones(5, 3), jg.ones(3, 4)).shape
        jitgrad.Size([5, 4])
    """
    from .exporting import make_program

    return make_program(f, args, kwargs or {}, dynamic or {}, metadata or {}, name)


def load_program(path: Any) -> Program:
    """The program that `Program.save` wrote to a file or a folder.

    Nothing in the file is run; a broken one gives a `ParseError` that names the place. Weights are mapped into memory
    and read when they are used; what a program writes into them stays in this process.

    >>> import jitgrad as jg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "double.jg")
    >>> jg.export(lambda x: x * 2, (jg.ones(3),)).save(path)
    >>> jg.load_program(path)(jg.ones(3))
    tensor([2., 2., 2.])
    """
    from .program import open_program

    return open_program(path)


export.Dim = Dim  # type: ignore[attr-defined]

__all__ = ["Constraint", "Dim", "export", "load_program"]
