"""The short way through a compiled call: one function per specialisation, written for it once it has served often.

    shortcut ::= conditions, native code that looks at the arrays and runs, results; `MISSED` where a condition fails

The conditions mean what key and guards mean, but say it of these arguments, these modules and this code alone: which
objects cells, globals, classes and slots hold, and which numbers change counters have. Where all is as it was, so is
what a key is made of. They are narrower: a call that misses goes the long way, which may find that it fits after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgrad.ir.config import config

from ..axis_order import Layout, layout_of
from ..backend import fitted_calls
from ..counters import counters
from ..mode import Mode, local
from ..object_layout import (
    CLASS,
    DICT_LENGTH,
    TAG_MASK,
    cell_offset,
    described_offset,
    dict_offset,
    function_offsets,
    slot_offset,
    tag_offset,
    version_tag,
)
from ..tensor import Tensor, rebinding
from .code import Reads, is_library, reads_of
from .fingerprint import CALLABLE, EMPTY, fingerprint
from .guards import Guards
from .key import overlapping
from .recollection import MISSING, Recollection
from .segments import Runnable, executable_of
from .shortcut_arguments import unpack
from .shortcut_code import Call, Code, Unsuited
from .shortcut_results import Results
from .sources import ArgumentSource, CapturedSource, GradSource, HostSource, NumberSource, grad_of_its_own
from .specialise import REFUSED, Specialisation, finish
from .surroundings import followed_by

_MODES: Final = (
    "grad", "inference", "default_dtype", "place", "cuda_device", "autocast_state", "tracer", "levels", "anomaly",
    "watches", "function_modes", "overrides_off",
)  # fmt: skip
_ndarray = np.ndarray


def make_shortcut(
    f: Callable[..., Any], spec: Specialisation, args: tuple[Any, ...], named: dict[str, Any], reads: Reads,
    varying: frozenset[int], record: Any,
) -> tuple[Call, Call] | None:  # fmt: skip
    """The function of a call's arguments, and one that only says whether it serves them; None if there can't be one.

    A call with these arguments has just been served by `spec`.
    """
    if spec.guards is None or spec.cuts:
        return None
    try:
        return _Shortcut(spec, spec.guards, args, named).make(f, reads, varying, record)
    except Unsuited:
        return None


class _Shortcut:
    """One in the making. Items of the native call: the thread's mode, tensor arguments, numbers, new outputs."""

    def __init__(self, spec: Specialisation, guards: Guards, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.spec = spec
        self.guards = guards
        self.code = Code()
        self.args = unpack(self.code, args, named)  # all leaves
        self.native = fitted_calls()
        self.words: list[Any] = []
        self.items = ["local.mode"]
        self.item_of: dict[int, int] = {}  # by argument
        self.before: list[str] = []
        self.kept: list[Any] = []  # objects whose identity is compared

    def make(self, f: Callable[..., Any], reads: Reads, varying: frozenset[int], record: Any) -> tuple[Call, Call]:
        """The function, and one that only checks."""
        code = self.code
        for name, value in (("local", local), ("config", config), ("rebinding", rebinding), ("guards", self.guards),
                            ("Tensor", Tensor)):  # fmt: skip
            code.define(name, value)
        code.miss_if("not config.compile")
        code.miss_if("rebinding.count != guards._rebound and not guards.captured_hold()")
        self._modes()
        for i, x in enumerate(self.args):
            self._argument(i, x, i in varying, reads)
        self._reached(f, reads)
        self._guards()
        self._memory()
        self._histories()
        arrays = self._arrays()
        return self._entered(arrays, record)

    # conditions -------------------------------------------------------------------------------------------

    def _slot(self, owner: Any, offset: int, value: Any, is_item: bool = False) -> None:
        """A slot holds this very object."""
        self.kept.append(value)
        self.words.append(self.native.Word(owner, offset, id(value), is_item))

    def _modes(self) -> None:
        mode = local.mode
        for name in _MODES:
            self._slot(0, slot_offset(Mode, name), getattr(mode, name), is_item=True)

    def _argument(self, i: int, x: Any, varies: bool, reads: Reads) -> None:
        code, kind = self.code, type(x)
        if kind is Tensor or (isinstance(x, Tensor) and is_library(kind.__module__)):
            item = self.item_of[i] = len(self.items)
            self.items.append(f"a{i}")
            self.words.append(self.native.Word(item, CLASS, id(kind), True))
            self._slot(item, slot_offset(Tensor, "_requires_grad"), x._requires_grad, is_item=True)
            self._slot(item, slot_offset(Tensor, "_hooks"), None, is_item=True)
            is_other = f"a{i}.__class__ is not Tensor" if kind is Tensor else f"a{i} is not {code.name(x)}"
            code.miss_if_argument(f"{is_other} or a{i}.__dict__")
            if x._hooks or x.__dict__:
                raise Unsuited
        elif varies and kind is float:
            code.miss_if_argument(f"a{i}.__class__ is not float")
        elif x is None or kind is bool:
            code.miss_if_argument(f"a{i} is not {x}")
        elif kind in (int, str) or (kind is float and x):
            code.miss_if_argument(f"a{i}.__class__ is not {kind.__name__} or a{i} != {code.name(x)}")
        elif isinstance(x, Tensor):
            raise Unsuited
        else:
            code.miss_if_argument(f"a{i} is not {code.name(x)}")
            self._followed(x, reads)

    def _reached(self, f: Callable[..., Any], reads: Reads) -> None:
        """What the fingerprint of `f` follows from."""
        fingerprint(f, reads)
        self._followed(f, reads)

    def _followed(self, x: Any, reads: Reads) -> None:
        """What the fingerprint of `x` follows from."""
        found = Recollection(None, reads)
        if not found.add(x):
            raise Unsuited
        self.code.miss_if(f"len({self.code.name(reads.codes)}) != {found.known}")
        self._recollected(found)

    def _recollected(self, found: Recollection) -> None:
        code = self.code
        for thing, epoch in found.counted:
            self._epoch(thing, epoch)
        for cell, value in found.cells:
            self._slot(cell, cell_offset(), value)
        for namespace, name, value in found.names:
            code.miss_if(f"{code.name(namespace)}.get({name!r}, {code.name(MISSING)}) is not {code.name(value)}")
        for f, *parts, attributes in found.functions:
            for value, offset in zip(parts, function_offsets(), strict=False):
                self.kept.append(value)
                self.words.append(self.native.Word(f, offset, 0 if value is None else id(value)))  # C has no None here
            if attributes is None:
                self.words.append(self.native.Word(f, function_offsets()[-1], 0, then=DICT_LENGTH))
            else:
                self._slot(f, function_offsets()[-1], attributes)
        for t in found.tensors:
            code.miss_if(f"{code.name(t)}.__dict__")
        for stand_in, function in found.stand_ins:
            code.miss_if(f"{code.name(stand_in)}._f is not {code.name(function)}")
        for cls, tag in found.classes:
            self._class(cls, tag)
        self._objects(found)
        for items, count in found.lengths:
            self.words.append(self.native.Word(items, DICT_LENGTH, count))
        for items, keys in found.dicts:
            code.miss_if(f"[*{code.name(items)}] != {code.name(keys)}")
        for values, known in found.lists:
            name, content = code.name(values), code.name(known)
            differ = [f"{name}[{k}] is not {content}[{k}]" for k in range(len(known))]
            code.miss_if(" or ".join([f"len({name}) != {len(known)}", *differ]))
        for items in found.empty:
            code.miss_if(code.name(items))

    def _objects(self, found: Recollection) -> None:
        """Their classes, which dicts their attributes are in, what slots hold, and which names no dict has."""
        for x, cls, attributes in found.objects:
            self._slot(x, CLASS, cls)
            offset = None if attributes is None else dict_offset(x)
            if offset is not None:
                self._slot(x, offset, attributes)
            elif attributes is not None:
                raise Unsuited
        for x, slot, value in found.slots:
            address = 0 if value is EMPTY else id(value)
            offset = described_offset(slot, x, address)
            if offset is None:
                raise Unsuited
            self.kept.append(value)
            self.words.append(self.native.Word(x, offset, address))
        for has_none, names in found.absent:
            self.code.miss_if(f"not {self.code.name(has_none)}({self.code.name(names)})")

    def _epoch(self, thing: Any, epoch: int) -> None:
        self.code.miss_if(f"{self.code.name(thing)}._epoch != {epoch}")

    def _class(self, cls: type, tag: int) -> None:
        offset = tag_offset()
        if offset is None or not tag:
            raise Unsuited
        self.words.append(self.native.Word(cls, offset, tag, mask=TAG_MASK))

    def _guards(self) -> None:
        """What the trace depends on beyond the key."""
        guards, code = self.guards, self.code
        for thing, epoch in guards.touched:
            self._epoch(thing, epoch)
        for cls in guards.surroundings.classes():
            self._class(cls, version_tag(cls))
        for read, value in guards.surroundings.probes():
            self._probe(read, value)
        if guards.surroundings.changed() is not None:
            raise Unsuited
        for i, t in guards._fixed:
            code.miss_if_argument(f"a{i} is not {code.name(t)}")
        for source, known in guards._grads:
            self._grad(source, known)

    def _probe(self, read: Callable[[], Any], value: Any) -> None:
        """A value around modules: told by what it follows from, or looked at at each call."""
        followed = followed_by(read)
        x = followed[0] if followed else None
        reads = reads_of(x) if isinstance(x, CALLABLE) else Reads(all_names=True)
        seen = Recollection(None, reads)
        if followed and seen.add(x):
            self.code.miss_if(f"len({self.code.name(reads.codes)}) != {seen.known}")
            self._recollected(seen)
        else:
            self.code.miss_if(f"{self.code.name(read)}() != {self.code.name(value)}")

    def _grad(self, source: Any, known: Any) -> None:
        """The gradient of a tensor is there or not, and is what it was."""
        owner, is_item = self._owner(source)
        offset = slot_offset(Tensor, "_grad")
        grad = source.tensor(self.args)._grad
        if known is None or isinstance(known, CapturedSource):
            self._slot(owner, offset, grad, is_item)
        elif known is not grad_of_its_own:
            raise Unsuited
        else:
            self.words.append(self.native.Word(owner, offset, id(Tensor), is_item, then=CLASS))
            if type(grad) is not Tensor:
                raise Unsuited

    def _owner(self, source: Any) -> tuple[Any, bool]:
        """Where native code finds the tensor of a source: itself, or an item's number."""
        if isinstance(source, CapturedSource):
            return source.captured, False
        return self.item_of[source.index], True

    def _memory(self) -> None:
        """What arguments and gradients share with one another, and with captured tensors: nothing."""
        guards, code = self.guards, self.code
        tensors = [f"a{i}" for i in self.item_of]
        for k, x in enumerate(tensors):
            for y in tensors[:k]:
                code.miss_if_argument(f"{x} is {y}")
        if guards._shared or len({id(self.args[i]) for i in self.item_of}) < len(tensors):
            raise Unsuited
        grads = [self._expression(s) for s in guards._moving if isinstance(s, GradSource)]
        moving = [self._expression(s) for s in guards._moving if isinstance(s, ArgumentSource)]
        for x in grads:
            code.miss_if_argument(f"{x} is None")
        if any(type(t) is Tensor for t in guards.captured):
            captured = code.name(guards._ids)
            for x in (*moving, *grads):
                code.miss_if_argument(f"id({x}) in {captured}")
        if guards._writes and grads:
            code.miss_if_argument(f"guards._find_shared({code.leaves})")
        elif guards._writes:
            for i, x in enumerate(moving):
                code.miss_if_argument(f"(d{i} := {x}._data).base is not None and guards._find_shared({code.leaves})")
                code.miss_if_argument(f"id(d{i}) in guards._memory")
                for k in range(i):
                    code.miss_if_argument(f"d{i} is d{k}")
        if len(tensors) > 1:
            views = " or ".join(f"{x}._data.base is not None" for x in tensors)
            code.miss_if_argument(f"({views}) and {code.name(overlapping)}({code.leaves})")

    # running ----------------------------------------------------------------------------------------------

    def _expression(self, source: Any) -> str:
        """The tensor of a source, in Python."""
        if isinstance(source, ArgumentSource):
            return f"a{source.index}"
        if isinstance(source, CapturedSource):
            return self.code.name(source.captured)
        if isinstance(source, GradSource):
            return f"{self._expression(source.of)}._grad"
        raise Unsuited

    def _arrays(self) -> list[Any]:
        """The inputs of the executable; numbers become items."""
        found = []
        at = slot_offset(Tensor, "_data")
        layouts = (isinstance(self.spec.run, Runnable) and self.spec.run.layouts) or (None,) * len(self.spec.types)
        for source, type_, layout in zip(self.spec.sources, self.spec.types, layouts, strict=True):
            shape, dtype = type_.shape, type_.dtype.np
            if isinstance(source, (HostSource, NumberSource)):
                found.append(self.native.Array(len(self.items), shape, dtype, True))
                self.items.append(self._number(source))
                continue
            slots: tuple[int, ...] = (at,)
            of: Any = source
            if isinstance(source, GradSource):
                slots, of = (slot_offset(Tensor, "_grad"), at), source.of
            if not isinstance(of, (ArgumentSource, CapturedSource)) or not _is_plain(source.fetch(self.args), layout):
                raise Unsuited
            owner, is_item = self._owner(of)
            lies = () if layout is None else (layout.order, layout.held)
            found.append(self.native.Array(owner, shape, dtype, is_item, slots, *lies))
        return found

    def _unused(self) -> list[Any]:
        """Arguments that are no inputs, though the trace has gone by their types."""
        used = {s.index for s in self.spec.sources if isinstance(s, ArgumentSource)}
        unused = {item: self.args[i]._data for i, item in self.item_of.items() if i not in used}
        if not all(map(_is_plain, unused.values())):
            raise Unsuited
        slots = (slot_offset(Tensor, "_data"),)
        return [self.native.Array(item, x.shape, x.dtype, True, slots) for item, x in unused.items()]

    def _number(self, source: Any) -> str:
        """A number as an array, made in front of the native code."""
        name = f"n{len(self.items)}"
        if isinstance(source, NumberSource):
            self.before.append(f"{name} = {self.code.name(np.asarray)}(a{source.index}, {self.code.name(np.float64)})")
        else:
            self.before.append(f"{name} = {self.code.name(_Number(source))}()")
        return name

    def _entered(self, arrays: list[Any], record: Any) -> tuple[Call, Call]:
        spec, code, run = self.spec, self.code, self.spec.run
        executable = executable_of(run)
        numbers = run.numbers if isinstance(run, Runnable) else ()
        fed = [*arrays, *(self.native.Array(x, x.shape, x.dtype) for x in numbers)]
        count, unused = len(self.items), self._unused()
        call = self.native.fitted_call(executable, self.words, fed, unused, count)
        looks = self.native.looks(self.words, [*arrays, *unused], count)
        code.define("kept", (self.kept, call, looks, spec))
        items = ", ".join(self.items)
        checked = [*self.before, f"if not {code.name(looks.run)}([{items}]): return MISSED"]
        fetched = [f"{self._expression(s)}._data" if hasattr(s, "tensor") else self.items[x.owner]
                   for s, x in zip(spec.sources, arrays, strict=True)]  # fmt: skip
        counted = [f"{code.name(record)}.calls += 1", f"{code.name(counters)}.calls += 1"]
        if call is None:
            statements = [*checked, *counted, *self._replayed(fetched, record)]
        else:
            results = Results(spec, code, self.args, self._expression, fetched, call.places).statements()
            made = [
                f"o{k} = {code.name(np.empty)}({code.name(s)}, {code.name(d)})" for k, (s, d) in enumerate(call.made)
            ]
            everything = ", ".join([items, *(f"o{k}" for k in range(len(made)))])
            entry = f"if not {code.name(call.run)}([{everything}]): return MISSED"
            statements = [*self.before, *made, entry, *counted, *results]
        return code.function(statements), code.function([*checked, "return True"])

    def _replayed(self, fetched: Sequence[str], record: Any) -> list[str]:
        """The call the usual way, without looking at anything again."""
        name = self.code.name
        return [
            f"result = {name(finish)}({name(self.spec)}, {self.code.leaves}, [{', '.join(fetched)}], ())",
            f"if result is {name(REFUSED)}:",
            f"    {name(record)}.refuses()",
            f"    return {name(record)}.f(*args, **named)",
            "return result",
        ]

    def _histories(self) -> None:
        """Which captured tensors require gradients, and that they are leaves, as far as the tape has them.

        A leaf comes to require them by being rebound, which is counted, or by getting a history.
        """
        slots = {at for stage in self.spec.stages for at in stage.operands if at >= 0}
        for at in sorted(slots):
            source = self.spec.sources[at]
            if isinstance(source, CapturedSource):
                t = source.captured
                name = "_node" if t._node is None else "_requires_grad"
                self._slot(t, slot_offset(Tensor, name), getattr(t, name))


class _Number:
    """A number that Python gives anew at each call, as an array; the same one while it is the same object."""

    __slots__ = ("_dtype", "_last", "_read")

    def __init__(self, source: HostSource) -> None:
        self._read = source.read
        self._dtype = source.dtype
        self._last: tuple[Any, Any] = (None, None)

    def __call__(self) -> Any:
        value = self._read()
        before, array = self._last
        if value is before and value.__class__ is float:
            return array
        array = np.asarray(value, self._dtype)
        self._last = value, array
        return array


def _is_plain(array: Any, layout: Layout | None = None) -> bool:
    """Whether native code takes an array that lies so, and any that is alike."""
    if array.__class__ is not _ndarray:
        return False
    flags = array.flags
    lies = layout_of(array.shape, array.strides, array.itemsize) == layout if layout else flags.c_contiguous
    return bool(lies and flags.aligned and flags.writeable)
