"""What `Program.check` looks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from jitgrad.ir.analysis import peak_bytes
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph
from jitgrad.ir.interpreter import run

from ..arrays import on_device, on_host
from .comparing import close, random_array

_MOST_BYTES: Final = 1 << 28  # a program that takes more is verified and not run
Sizes = Mapping[str, int]


def problems(program: Any, sizes: Sizes | None) -> list[str]:
    """What is wrong with `program`, at these lengths of its dimensions or at several."""
    found = []
    opened = program._opened
    if opened is not None and not opened.weights_are_intact():
        found.append("weights: they are not those that were written: the SHA-256 differs")
    choices = list(_choices(program)) if sizes is None else [sizes]
    for chosen in choices:
        at = f" at {', '.join(f'{k} = {n}' for k, n in chosen.items())}" if chosen else ""
        try:
            found += [f"{problem}{at}" for problem in _at(program, chosen)]
        except JitgradError as error:
            if chosen is choices[0]:  # at others a program may refuse, as its function may
                found.append(f"{error}{at}")
    return found


def _choices(program: Any) -> Iterator[Sizes]:
    """The lengths at export, and for each dimension the least and a greater one."""
    dims = program.dims
    example = {name: dim.example for name, dim in dims.items()}
    yield example
    for name, dim in dims.items():
        for n in (-(-dim.min // dim.step) * dim.step, 2 * dim.example + dim.step):
            sizes = {**example, name: n}
            if dim.allows(n) and n != dim.example and all(c.holds(sizes) for c in program.constraints):
                yield sizes


def _at(program: Any, sizes: Sizes) -> list[str]:
    graph = program.graph(sizes)
    if peak_bytes(graph) > _MOST_BYTES:
        return []
    random = np.random.default_rng(0)
    state = {s.input: program.state[s.name] for s in program._spec.state}
    inputs = [
        np.array(on_host(state[i]._data)) if i in state else random_array(v.type, random)
        for i, v in enumerate(graph.inputs)
    ]
    try:
        with np.errstate(all="ignore"):
            want = run(graph, [np.array(x) for x in inputs])
    except JitgradError:
        return []  # it refuses these numbers, as it may
    got = _compiled(program, graph, sizes, inputs)
    differing = [i for i, (x, y) in enumerate(zip(want, got, strict=True)) if not close(np.asarray(x), y)]
    return [f"output {i}: the compiled program gives something else than NumPy does" for i in differing]


def _compiled(program: Any, graph: Graph, sizes: Sizes, inputs: list[Any]) -> list[Any]:
    """The outputs of the compiled program, on copies."""
    executable = program._runner.compile(sizes)
    outs = executable([on_device(np.array(x), program.device) for x in inputs])
    return [on_host(x) for x in outs]
