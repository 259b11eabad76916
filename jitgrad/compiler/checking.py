"""`check=True`: each compiled call is run eagerly as well, from the same state, and the two are compared.

Only calls that are replayed are checked. Their functions have no effects but on tensors and generators of random
numbers, whose state is put back in between, so that running Python once more does no harm. At the end, all is as the
compiled call left it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.errors import CheckError, JitgradError

from .. import pytree
from ..aliasing import storage_of
from ..arrays import assign, on_host
from ..autograd.api import grad
from ..counters import log
from ..errors import located
from ..tensor import Tensor, rebinding, wrap
from .locating import culprit
from .misses import source_name
from .numeric import difference_of
from .record import names_of_inputs
from .specialise import REFUSED, Specialisation
from .tree import Unknown


@dataclass(frozen=True)
class _Kept:
    """A tensor as it was: its array, a copy of it, its gradient with a copy, and how often it had been written."""

    tensor: Tensor
    array: Any
    data: Any
    grad: Tensor | None
    grad_data: Any
    version: int
    requires_grad: bool


class State:
    """What tensors and generators hold at one time."""

    def __init__(self, tensors: Sequence[Tensor], generators: Sequence[Any]) -> None:
        self.kept = [_kept(t) for t in tensors]
        self.offsets = [(g, g.offset) for g in generators]

    def restore(self) -> None:
        """Put all back, in the same memory."""
        for kept in self.kept:
            t = kept.tensor
            if t._data is not kept.array:
                t._data = kept.array
                rebinding.count += 1
            t._requires_grad = kept.requires_grad
            _put(kept.array, kept.data)
            t._grad = kept.grad
            if kept.grad is not None:
                _put(kept.grad._data, kept.grad_data)
            if t._storage is not None:
                storage_of(t)._version = kept.version
        for generator, offset in self.offsets:
            generator.offset = offset


def _kept(t: Tensor) -> _Kept:
    grad_data = None if t._grad is None else _copy(t._grad)
    return _Kept(t, t._data, _copy(t), t._grad, grad_data, t._version, t._requires_grad)


def _copy(t: Tensor) -> Any:
    return np.array(on_host(t._data))


def _put(array: Any, data: Any) -> None:
    if array.flags.writeable:
        assign(array, wrap(data)._data)


def checked(
    compiled: Any, specs: Sequence[Specialisation], leaves: Sequence[Any], structure: Any, run: Callable[[], Any]
) -> Any:
    """The result of `run`, a call of `compiled` that ends in one of `specs`, once it is found to be the eager one."""
    known, tensors, generators = _reached(specs, leaves)
    names = [known.get(id(t), "an argument") for t in tensors]
    before = State(tensors, generators)
    result = run()
    if isinstance(result, Unknown) or result is REFUSED:
        return result
    got = _Outcome(result, tensors)
    after = State(tensors, generators)
    before.restore()
    try:
        args, kwargs = _call(structure, leaves)
        want = _Outcome(compiled._f(*args, **kwargs), tensors)
        difference = next(_differences(got, want, names), None)
        if difference is not None:
            before.restore()
            told = culprit(specs, leaves, before, lambda: _traced_anew(compiled, args, kwargs, tensors, want))
            if told is None:
                log("check", "%s: %s, which rounding explains", compiled._name, difference)
            else:
                raise located(CheckError(f"{compiled._name}: compiled and eager differ: {difference}\n  {told}"))
    finally:
        after.restore()
    return result


def _call(structure: Any, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (tuple(leaves), {}) if isinstance(structure, int) else pytree.unflatten(structure, leaves)


def _reached(specs: Sequence[Specialisation], leaves: Sequence[Any]) -> tuple[dict[int, str], list[Tensor], list[Any]]:
    """The tensors that the paths read or write, with their names, and the generators that they draw from."""
    tensors = {id(x): x for x in leaves if isinstance(x, Tensor)}
    generators: dict[int, Any] = {}
    names: dict[int, str] = {}
    for spec in specs:
        known = names_of_inputs(spec)
        for source in (*spec.sources, *[s for s, _ in spec.grads]):
            of = getattr(source, "of", source)
            if hasattr(of, "tensor"):
                t = of.tensor(leaves)
                tensors.setdefault(id(t), t)
                names.setdefault(id(t), source_name(of, known))
        generators.update((id(g), g) for g, _, _ in spec.draws)
    return names, list(tensors.values()), list(generators.values())


class _Outcome:
    """What a call did: its results, the tensors' values and gradients, and the gradients of its results."""

    def __init__(self, result: Any, tensors: Sequence[Tensor]) -> None:
        self.leaves, self.structure = pytree.flatten(result)
        self.results = [_copy(x) if isinstance(x, Tensor) else x for x in self.leaves]
        self.data = [_copy(t) for t in tensors]
        self.grads = [None if t._grad is None else _copy(t._grad) for t in tensors]
        self.gradients = self._gradients([t for t in tensors if t._requires_grad])

    def _gradients(self, inputs: Sequence[Tensor]) -> list[Any]:
        """Of each result that has one, with a cotangent that differs from element to element; None if there is none."""
        found: list[Any] = []
        hooked = any(t._hooks for t in inputs)
        for x in self.leaves:
            if not isinstance(x, Tensor) or not x._requires_grad or hooked or not inputs:
                found.append(None)
                continue
            cotangent = np.linspace(0.5, 1.5, x.numel()).reshape(x.shape).astype(x._data.dtype)
            try:
                given = grad([x], inputs, [wrap(cotangent)], retain_graph=True, allow_unused=True)
            except JitgradError:  # the call has used up the graph, as a training step does
                given = ()
            # A branch not taken gives None eagerly, and zeros in a graph that holds both.
            gradients = [None if g is None or not (array := _copy(g)).any() else array for g in given]
            found.append(gradients if any(g is not None for g in gradients) else None)
        return found


def _traced_anew(compiled: Any, args: Any, kwargs: Any, tensors: Sequence[Tensor], want: _Outcome) -> tuple[Any, bool]:
    """The specialisation of another trace of the function, and whether its call does what the eager one did."""
    other = type(compiled)(compiled._f)
    got = _Outcome(other(*args, **kwargs), tensors)
    made = other.explain().specialisations
    return (made[-1] if made else None), next(_differences(got, want, [""] * len(tensors)), None) is None


def _differences(got: _Outcome, want: _Outcome, names: Sequence[str]) -> Iterator[str]:
    if got.structure != want.structure:
        yield "the results' structure"
        return
    pairs = zip(got.results, want.results, got.leaves, want.leaves, strict=True)
    for k, (a, b, x, y) in enumerate(pairs):
        name = f"result {k}" if len(got.results) > 1 else "the result"
        if isinstance(x, Tensor) and isinstance(y, Tensor) and x._requires_grad != y._requires_grad:
            yield f"{name}: requires_grad is {x._requires_grad}, eager {y._requires_grad}"
        yield from _told(name, a, b)
    for name, a, b in zip(names, got.data, want.data, strict=True):
        yield from _told(f"the value of {name}", a, b)
    for name, a, b in zip(names, got.grads, want.grads, strict=True):
        yield from _told(f"{name}.grad", a, b)
    for k, (a, b) in enumerate(zip(got.gradients, want.gradients, strict=True)):
        if isinstance(a, list) and isinstance(b, list):
            for i, (g, h) in enumerate(zip(a, b, strict=True)):
                yield from _told(f"the gradient of result {k} for differentiable input {i}", g, h)
        elif a is not b:
            yield f"the gradient of result {k} is {'not there' if a is None else 'there'}, unlike eager's"


def _told(name: str, a: Any, b: Any) -> Iterator[str]:
    difference = difference_of(a, b)
    if difference is not None:
        yield f"{name}: {difference}"
