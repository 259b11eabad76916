"""Finds the program behind a function by tracing it at several sizes.

example ─► each dimension alone ─► all together ─► one symbolic graph ─► other sizes, small and large, agree?
                                                        ▲                        │ no: one more sample,
                                                        └────────────────────────┘ or a bound, or an error
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from jitgrad.ir import analysis
from jitgrad.ir.errors import CompileError, JitgradError
from jitgrad.ir.graph import Graph
from jitgrad.ir.instantiate import instantiate
from jitgrad.ir.verify import verify

from ..errors import located
from .capture import Captured
from .comparing import agree_on_numbers
from .dims import Constraint, Dim
from .generalise import Differs, generalise
from .ranges import always_holds
from .trees import Tree, same_tree

Sizes = Mapping[str, int]
_PROBES: Final = 5
_REFITS: Final = 16
_OFFSETS: Final = (1, 2, 3, 5, -1, 7, 4, -2, 11, 13, 6, -3, 17, 9, 8, 23, 10, 31)
_LARGE: Final = 1009
SAME, DIFFERS, REFUSED = "same", "differs", "refused"


class Explorer:
    """Traces by `trace(sizes)`, which gives a trace and the constraints it met; see `Steady`."""

    def __init__(
        self, trace: Callable[..., tuple[Captured, Sequence[Constraint]]], dims: Mapping[str, Dim], fixed: set[str]
    ) -> None:
        self._trace = trace
        self.dims = dict(dims)
        self.fixed = fixed  # dimensions whose bounds the user gave
        self.constraints: dict[str, Constraint] = {}
        self.samples: list[Captured] = []
        self._seen: dict[tuple[int, ...], Captured | Exception] = {}
        self.graph: Graph
        self.result: Tree

    def explore(self, first: Captured, constraints: Sequence[Constraint]) -> None:
        """Find graph, result, bounds and constraints; `first` is the trace at the examples."""
        given = self.example = dict(first.sizes)
        self._seen[tuple(given.values())] = first
        self._note(constraints)
        self.samples = [first]
        self._fit([first, self._again()])
        first = self._not_at_one(first)
        self.samples = [first, *[self._vary(name) for name in self.dims]]
        if self.dims:
            self._fit([*self.samples, *self._together(_PROBES)])
            self._test()
            self._look_again()
            if not self._allows(given) or self.verdict(given) is not SAME:
                raise self._disagrees(given, Differs("the graphs differ"))
        self.constraints = {k: c for k, c in self.constraints.items() if not always_holds(c, self.dims)}

    # tracing ------------------------------------------------------------------------------------------------

    def trace(self, sizes: Sizes) -> Captured:
        """The trace at these sizes, kept; raises what the function raises there."""
        key = tuple(sizes[n] for n in self.example)
        found = self._seen.get(key)
        if found is None:
            try:
                found, constraints = self._trace(dict(zip(self.example, key, strict=True)))
                self._note(constraints)
            except Exception as error:
                found = error
            self._seen[key] = found
        if isinstance(found, Exception):
            raise found
        return found

    def _again(self) -> Captured:
        """Another trace at the example's sizes, which differs from the first where Python gives other numbers."""
        found, constraints = self._trace(self.example)
        self._note(constraints)
        return found

    def _not_at_one(self, first: Captured) -> Captured:
        """A trace to start from at which no length is 0 or 1, where functions often do less than elsewhere."""
        sizes = {
            n: next((m for m in (k, 2, 3, 4) if m > 1 and self.dims[n].allows(m)), k) for n, k in self.example.items()
        }
        if sizes == self.example or not self._allows(sizes) or isinstance(self._attempt(sizes), Exception):
            return first
        self.example = sizes
        self.dims = {n: dataclasses.replace(d, example=sizes[n]) for n, d in self.dims.items()}
        return self.trace(sizes)

    def _note(self, constraints: Sequence[Constraint]) -> None:
        for c in constraints:
            self.constraints.setdefault(str(c), c)
            if not c.holds(self.example):
                raise Differs(f"export: {c} holds at some sizes only, not at {self.example}", c.location)

    def _allows(self, sizes: Sizes) -> bool:
        return all(self.dims[n].allows(k) for n, k in sizes.items()) and all(
            c.holds(sizes) for c in list(self.constraints.values())
        )

    # samples ------------------------------------------------------------------------------------------------

    def _vary(self, name: str) -> Captured:
        """A trace at which `name` alone is another; finds out of what its length must be a multiple."""
        start = self.example[name]
        error: Exception | None = None
        for step in _steps(self.dims[name].step, start):
            offsets = [k * step for k in (1, 2, -1, -2, 3) if self._may_be(name, start + k * step)]
            if not offsets:
                continue
            found = [self._attempt({**self.example, name: start + k}) for k in offsets[:2]]
            error = error or next((e for e in found if isinstance(e, Exception)), None)
            if all(isinstance(t, Captured) for t in found):
                self.dims[name] = dataclasses.replace(self.dims[name], step=step)
                return found[0]  # type: ignore[return-value]
        raise self._cannot_vary(name, error)

    def _may_be(self, name: str, n: int) -> bool:
        return n > 1 and self._allows({**self.example, name: n})

    def _attempt(self, sizes: Sizes) -> Captured | Exception:
        try:
            return self.trace(sizes)
        except Exception as error:
            return error

    def _cannot_vary(self, name: str, error: Exception | None) -> Exception:
        """Why a dimension has only the length of the example."""
        start = self.example[name]
        if error is None:
            reasons = [c for c in self.constraints.values() if name in (*c.left.names(), *c.right.names())]
            why = "; ".join(f"{c}, by {c.location}" for c in reasons) or str(self.dims[name])
            return located(CompileError(f"export: dimension {name!r} can't vary: only {start} fits {why}"))
        for other, n in self.example.items():
            both = {**self.example, name: start + 1, other: n + 1}
            if other != name and n == start and isinstance(self._attempt(both), Captured):
                return located(
                    CompileError(
                        f"export: dimensions {name!r} and {other!r} must be equal: give them one name\n  {error}"
                    )
                )
        made = CompileError(f"export: dimension {name!r} can't vary; with {start + 1} in place of {start}:\n  {error}")
        made.__cause__ = error
        return made

    def _together(self, count: int) -> list[Captured]:
        """Traces at which all dimensions differ from the example, each in its own way."""
        found: list[Captured] = []
        for sizes in self._candidates():
            if len(found) == count:
                break
            if self._allows(sizes) and sizes != self.example:
                t = self._attempt(sizes)
                if isinstance(t, Captured) and all(t is not s for s in self.samples):
                    found.append(t)
        return found

    def _candidates(self) -> Iterator[dict[str, int]]:
        for round in range(3 * len(_OFFSETS)):
            sizes = {}
            for i, (name, n) in enumerate(self.example.items()):
                offset = _OFFSETS[(round * (i + 1) + 2 * i) % len(_OFFSETS)]
                sizes[name] = max(2, n + offset * self.dims[name].step)
            yield sizes

    # fitting and testing ------------------------------------------------------------------------------------

    def _fit(self, samples: Sequence[Captured]) -> None:
        self.graph, self.result = generalise(samples)
        self.samples = list(samples)

    def _test(self) -> None:
        """Compare the graph with traces at other sizes; refit, or set bounds, until they agree."""
        for _ in range(_REFITS):
            for sizes, moved in self._held_out():
                found = self.verdict(sizes) if self._allows(sizes) else SAME
                if found is REFUSED and moved is not None and moved not in self.fixed:
                    self._bound(moved, sizes[moved], CompileError("the function refuses it"))
                    break
                if found is DIFFERS:
                    self._mend(sizes, moved)
                    break
            else:
                return
        raise located(CompileError("export: no program was found that holds at all sizes that were tried"))

    def _held_out(self) -> Iterator[tuple[dict[str, int], str | None]]:
        """Sizes to test at; with the name of the dimension, where it alone is not as in the example."""
        for name, dim in self.dims.items():
            least = -(-dim.min // dim.step) * dim.step
            large = (_LARGE // dim.step) * dim.step
            for n in dict.fromkeys((least, least + dim.step, least + 2 * dim.step, min(large, dim.largest))):
                if dim.allows(n):
                    yield {**self.example, name: n}, name
        for factor in (2, 3):
            yield {n: k * factor + self.dims[n].step for n, k in self.example.items()}, None
        yield from ((s, None) for s in itertools.islice(self._candidates(), 12, 16))

    def _look_again(self) -> None:
        """Trace once more with the shapes of all results known, for what user code compares of them."""
        first = self.samples[0]
        learned = {
            first.tracer.position(node): [r.type.shape for r in symbolic.results]
            for node, symbolic in zip(first.graph.nodes, self.graph.nodes, strict=True)
        }
        self._note(self._trace(first.sizes, learned)[1])

    def verdict(self, sizes: Sizes) -> str:
        """Whether the graph at these sizes is what the function does there, or both refuse them."""
        traced = self._attempt(sizes)
        try:
            made = instantiate(self.graph, sizes)
            verify(made)
        except JitgradError:
            return REFUSED if isinstance(traced, Exception) else DIFFERS
        if isinstance(traced, Exception) or not _same_use(traced, self.samples[0]):
            return DIFFERS
        if not same_tree(self.result, traced.result, sizes):
            return DIFFERS
        return SAME if analysis.equal(made, traced.graph) or agree_on_numbers(made, traced.graph) else DIFFERS

    def _mend(self, sizes: Sizes, moved: str | None) -> None:
        """Make the graph agree at `sizes`, or exclude them."""
        traced = self._attempt(sizes)
        reason: Exception = traced if isinstance(traced, Exception) else Differs("the graphs differ")
        if isinstance(traced, Captured):
            try:
                self._fit([*self.samples, traced])
            except Differs as error:
                reason = error
            else:
                if self.verdict(sizes) is not DIFFERS:
                    return
        if moved is None or moved in self.fixed:
            raise self._disagrees(sizes, reason)
        self._bound(moved, sizes[moved], reason)

    def _disagrees(self, sizes: Sizes, reason: Exception) -> Exception:
        message = reason.message if isinstance(reason, JitgradError) else str(reason)
        made = CompileError(
            f"export: at {dict(sizes)} the function does something else than at {self.example}: {message}"
        )
        made.attach_location(getattr(reason, "location", None))
        return made

    def _bound(self, name: str, bad: int, reason: Exception) -> None:
        """Exclude the lengths on the side of `bad`, up to where the graph agrees."""
        dim = self.dims[name]
        good = self.example[name]
        while abs(good - bad) > dim.step:
            middle = (good + bad) // 2 // dim.step * dim.step
            if middle in (good, bad):
                break
            sizes = {**self.example, name: middle}
            if not self._allows(sizes) or self.verdict(sizes) is SAME:
                good = middle
            else:
                bad = middle
        if good == self.example[name] and not self._differs_somewhere(name):
            raise self._disagrees({**self.example, name: bad}, reason)
        side = {"min": good} if bad < good else {"max": good}
        self.dims[name] = dataclasses.replace(dim, **side)
        if all(self.dims[name].allows(t.sizes[name]) for t in self.samples):
            return
        self._fit([t for t in self.samples if self.dims[name].allows(t.sizes[name])])

    def _differs_somewhere(self, name: str) -> bool:
        return len({t.sizes[name] for t in self.samples}) > 1


def _steps(declared: int, start: int) -> list[int]:
    """Candidates for what a length is a multiple of: as declared, then divisors of the example."""
    return [declared, *[d for d in range(declared * 2, start + 1, declared) if start % d == 0]]


def _same_use(a: Captured, b: Captured) -> bool:
    """Whether two traces use the same tensors and write to the same ones."""
    return [(r.kind, r.key) for r in a.roles] == [(r.kind, r.key) for r in b.roles] and a.updates == b.updates
