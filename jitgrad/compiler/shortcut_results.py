"""What a shortcut does once the native code has run: the statements that `specialise.hand_out` would come down to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import pytree
from ..dispatch import edge
from ..tape import Storage, TapeNode, let_write, next_seq, residual_mask
from .history import Stage
from .shortcut_code import Code
from .sources import CapturedSource, GradSource
from .specialise import Recipe, Specialisation, hand_out

_new = object.__new__


class _Unusual(Exception):
    """Results that are not made of new arrays in a few statements."""


class Results:
    """The statements. `tensor` gives the expression of a source's tensor, `arrays` are those of the inputs.

    `places` says of each output which input it is, or -1 for a new array, which is `o0`, `o1` and so on.
    """

    def __init__(
        self, spec: Specialisation, code: Code, args: Sequence[Any], tensor: Callable[[Any], str],
        arrays: Sequence[str], places: Sequence[int],
    ) -> None:  # fmt: skip
        self.spec = spec
        self.code = code
        self.args = args
        self.tensor = tensor
        self.arrays = arrays
        self.aliased = {k for k, at in enumerate(places) if at >= 0}
        fresh = iter(range(len(places)))
        self.outs = [arrays[at] if at >= 0 else f"o{next(fresh)}" for at in places]
        self.lines: list[str] = []
        self._names: dict[int, str] = {}
        self._nodes: dict[int, tuple[str, int]] = {}  # by output
        self._storages: dict[int, str] = {}
        for name, value in (("new", _new), ("TapeNode", TapeNode), ("Storage", Storage)):
            code.define(name, value)

    def statements(self) -> list[str]:
        """All of them."""
        try:
            self._few()
        except _Unusual:
            outs, arrays, name = ", ".join(self.outs), ", ".join(self.arrays), self.code.name
            return [f"return {name(hand_out)}({name(self.spec)}, {self.code.leaves}, [{arrays}], [{outs}])"]
        return self.lines

    def _few(self) -> None:
        spec, code = self.spec, self.code
        if spec.axes:
            raise _Unusual
        self.lines.append(f"{code.name(spec)}.runs += 1")
        self._writes()
        for generator, draws, more in spec.draws:
            if more is not None:
                raise _Unusual
            self.lines.append(f"{code.name(generator)}.offset += {draws}")
        for stage in spec.stages:
            self._stage(stage)
        everything = {id(r): r for r in (*spec.outputs, *(r for _, r in spec.grads)) if r is not None}.values()
        bases = Counter(id(b) for r in everything for b in (r, r[1] if r[0] in ("alias", "view") else None))
        results = [self._result(x, bases) for x in spec.outputs]
        for source, recipe in spec.grads:
            grad = "None" if recipe is None else self._made(recipe, bases)
            self.lines.append(f"{self.tensor(source)}._grad = {grad}")
        self.lines.append(f"return {self._whole(results)}")

    def _whole(self, results: Sequence[str]) -> str:
        """The results in their structure."""
        structure, all_of_them = self.spec.structure, ", ".join(results)
        if structure == pytree.LEAF:
            return results[0]
        if structure == (tuple, (pytree.LEAF,) * len(results)):
            return f"({all_of_them},)"
        return f"{self.code.name(pytree.unflatten)}({self.code.name(structure)}, [{all_of_them}])"

    def _writes(self) -> None:
        """Write what is not in place yet, and count."""
        written: dict[int, list[str]] = {}
        for out, slot, in_place, count in self.spec.writes:
            source: Any = self.spec.sources[slot]
            if not in_place:
                self.lines.append(f"{self.code.name(np.copyto)}({self.arrays[slot]}, {self.outs[out]})")
            written.setdefault(count, []).append(self.tensor(source))
        for count, tensors in written.items():
            self.lines += [
                f"for t in ({', '.join(tensors)},):",
                "    s = t._storage",
                "    if s is None: s = t._storage = Storage()",
                f"    s._version += {count}",
            ]

    # the tape ---------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> None:
        """The node of a stage, if one of its operands requires a gradient."""
        edges = [self._edge(at) for at in stage.operands]
        needs = tuple([e != "None" for e in edges])
        if not any(needs):
            return
        code, lines = self.code, self.lines
        keep, keep_results = residual_mask(stage.op, stage.types, needs)
        node = f"m{len(self._nodes)}_{len(lines)}"
        saved, owners, versions = self._kept(stage, (*keep, *keep_results))
        lines.append(f"{node} = new(TapeNode)")
        lines.append(f"{node}.op = {code.name(stage.op)}; {node}.types = {code.name(stage.types)}")
        lines.append(f"{node}.edges = {self._edges(stage, edges)}")
        lines.append(f"{node}.saved = {saved}; {node}.owners = {owners}; {node}.versions = {versions}")
        kept = None if stage.overwritten else (*keep, *keep_results)
        lines.append(f"{node}.seq = {code.name(next_seq)}(); {node}.kept = {code.name(kept)}")
        lines.append(f"{node}.hooks = {node}.location = None")
        if stage.op.copies_on_write:
            lines.append(f"{code.name(let_write)}({node})")
        for k, out in enumerate(stage.results[: stage.count]):
            self._nodes[out] = node, k

    def _edge(self, at: int) -> str:
        """Where an operand comes from, in Python."""
        if at < 0:
            node, index = self._nodes.get(-1 - at, ("None", 0))
            return node if index == 0 else f"({node}, {index})"
        source: Any = self.spec.sources[at]
        if not hasattr(source, "tensor"):
            return "None"
        if isinstance(source, GradSource):  # it may come to require gradients
            raise _Unusual
        t = source.tensor(self.args)
        if not t._requires_grad or not t.dtype.is_differentiable:
            return "None"
        if isinstance(source, CapturedSource) and t._node is None:  # which is a condition
            return self.code.name(t)
        name = self.tensor(source)
        return f"({name} if {name}._node is None else {self.code.name(edge)}({name}))"

    def _edges(self, stage: Stage, edges: Sequence[str]) -> str:
        """A tuple that is made once, if none of them is another one at each call."""
        named = {self.code.name(s.captured): s.captured for s in self.spec.sources if isinstance(s, CapturedSource)}
        if all(e == "None" or e in named for e in edges):
            return self.code.name(tuple([named.get(e) for e in edges]))
        return f"({', '.join(edges)},)"

    def _kept(self, stage: Stage, kept: Sequence[bool]) -> tuple[str, str, str]:
        """What a node saves, whose it is, and how often that was written before the call."""
        if not any(kept):
            nothing = self.code.name((None,) * len(kept))
            return nothing, nothing, "None"
        saved, owners, versions = [], [], []
        for at, keeps in zip((*stage.operands, *[-1 - out for out in stage.results]), kept, strict=True):
            owner, version = "None", "0"
            if keeps and at < 0:
                owner = self._storage(-1 - at)
            elif keeps and hasattr(self.spec.sources[at], "tensor"):
                owner = self.tensor(self.spec.sources[at])
                version = f"{owner}._version - {int(at in stage.overwritten)}"
            saved.append("None" if not keeps else self.arrays[at] if at >= 0 else self.outs[-1 - at])
            owners.append(owner)
            versions.append(version)
        return tuple(f"[{', '.join(x)}]" for x in (saved, owners, versions))  # type: ignore[return-value]

    def _storage(self, out: int) -> str:
        """What counts the writes to an output."""
        if out not in self._storages:
            self._storages[out] = f"s{out}"
            self.lines.append(f"s{out} = Storage()")
        return self._storages[out]

    # results ----------------------------------------------------------------------------------------------

    def _result(self, recipe: Recipe, bases: Counter[int]) -> str:
        """A leaf of the result."""
        if recipe[0] == "python":
            return self.code.name(recipe[1])
        if recipe[0] == "number":
            return f"{self.code.name(recipe[2])}({self.outs[recipe[1]]})"
        return self._made(recipe, bases)

    def _made(self, recipe: Recipe, bases: Counter[int]) -> str:
        """A tensor; the same recipe gives the same one."""
        found = self._names.get(id(recipe))
        if found is None:
            found = self._names[id(recipe)] = self._tensor(recipe, bases)
        return found

    def _tensor(self, recipe: Recipe, bases: Counter[int]) -> str:
        if recipe[0] == "source":
            return self.tensor(self.spec.sources[recipe[1]])
        if recipe[0] == "alias":  # of something that nobody else sees
            base, history, at, ops = recipe[1:]
            if base[0] != "value" or base[2] is not None or ops or bases[id(base)] > 1 or id(base) in self._names:
                raise _Unusual
            out, takes = base[1], base[3]
        elif recipe[0] == "value":
            out, history, takes = recipe[1:]
            at = out
        else:
            raise _Unusual
        node = self._nodes.get(at)
        if history.__class__ is tuple or not takes or out in self.aliased:
            raise _Unusual
        name = f"t{len(self._names)}_{len(self.lines)}"
        index, requires = 0, history == "leaf"
        if history == "result" and node is not None:
            index, requires = node[1], True
        else:
            node = None
        self.lines.append(f"{name} = new(Tensor); {name}._data = {self.outs[out]}; {name}._index = {index}")
        self.lines.append(f"{name}._node = {node[0] if node else None}; {name}._requires_grad = {requires}")
        self.lines.append(f"{name}._storage = {self._storages.get(out)}")
        self.lines.append(f"{name}._view = {name}._grad = {name}._hooks = None")
        return name
