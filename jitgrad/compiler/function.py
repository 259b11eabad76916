"""`jitgrad.compile`: a function that traces once per specialisation and replays it on later calls."""

from __future__ import annotations

import functools
import gc
import sys
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.collection import PAUSE
from jitgrad.ir.config import config
from jitgrad.ir.errors import ArgumentError, CompileError, JitgradError
from jitgrad.ir.graph import Value

from .. import pytree
from ..backend import load_if_numba_is
from ..counters import counters
from ..dump import observer_for, write
from ..mode import local
from ..overrides import any_asks
from ..runtime_float import RuntimeFloat
from ..tensor import Tensor
from .checking import checked
from .code import reads_of
from .cuts import Refused
from .effects import may_have_effects, noticed
from .explain import Explanation
from .fingerprint import StandsForFunction, tensors_in
from .key import call_key, flatten_call
from .materialise import run_segment
from .names import name_inputs
from .numbers import VaryingNumbers
from .recollection import Recollections
from .record import Record
from .results import unrepeatable
from .retrace import Rerun, Retracer
from .shortcut import make_shortcut
from .shortcut_code import MISSED, Shortcuts
from .specialise import REFUSED, Escapes, Specialisation, finish, specialise, uncounted
from .tracer import Tracer
from .tree import Tree, Unknown, ends, graft, varies, walk

_MAX_SPECIALISATIONS = 128
_MAX_WITH_ONE_KEY = 16
_NUMERICS = ("default", "strict")
_MOST_UNKEPT = 3  # calls with different keys that could not be kept
_OWN_REFERENCES = 4  # to a user's array: the tracer's list, its tensor, the loop below and the question itself


class CompiledFunction(StandsForFunction):
    """A compiled function; made by `jitgrad.compile`. Call it like the original."""

    def __init__(
        self, f: Callable[..., Any], *, fullgraph: bool = False, dump: str | None = None, on_recompile: str = "ignore",
        check: bool = False, numerics: str = "default",
    ) -> None:  # fmt: skip
        if numerics not in _NUMERICS:
            raise ArgumentError(f"compile: numerics is one of {', '.join(_NUMERICS)}, not {numerics!r}")
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._name = getattr(f, "__qualname__", type(f).__name__).replace("<locals>.", "").replace(".", "_")
        self._fullgraph = fullgraph
        self._dump = dump
        self._entries: dict[Any, list[Tree | Rerun]] = {}
        self._last_key: Any = None
        self._numbers = VaryingNumbers()
        self._recollections = Recollections(functools.partial(reads_of, f))
        self._unkept: dict[Any, None] = {}
        self._unkept_in_a_row = 0
        self._always: Rerun | None = None  # for calls with new keys, once several could not be kept
        self._shortcuts = Shortcuts()
        self._record = Record(f, self._name, on_recompile, numerics)
        self._check = check
        self._numerics = numerics

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for call in self._shortcuts.calls:
            result = call(args, kwargs)
            if result is not MISSED:
                return result
        return self.call_at_length(args, kwargs)

    def call_at_length(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same without shortcuts."""
        mode = local.mode
        # Inside vmap and forward mode, ops are those transforms'; anomaly mode and others' modes want each of them.
        if mode.levels or mode.anomaly or mode.function_modes or not config.compile:
            return self._f(*args, **kwargs)
        if mode.tracer is not None:
            return mode.tracer.nested(self, self._f, args, kwargs)
        self._record.calls += 1
        counters.calls += 1
        leaves, structure = flatten_call(args, kwargs)
        if any_asks(leaves):
            counters.fallbacks += 1
            return self._f(*args, **kwargs)
        key = call_key(self._f, leaves, structure, self._numbers.of(structure), self._recollections.recall())
        unknown: Unknown | None = None
        for entry in self._entries.get(key, ()):
            if entry.__class__ is Rerun:
                counters.fallbacks += 1
                return entry(self._f, args, kwargs)
            if entry.guards.hold(leaves):  # type: ignore[union-attr]
                self._recollections.remember(self._f, key[2])
                result = self._walk(entry, leaves, structure) if self._check else walk(entry, leaves)  # type: ignore[arg-type]
                if result is REFUSED:
                    self._record.refuses()
                    return self._f(*args, **kwargs)
                if not isinstance(result, Unknown):
                    if not self._check and entry.__class__ is Specialisation:
                        self._shortcuts.served(entry, functools.partial(self._shortcut, entry, args, kwargs))
                    return result
                unknown = result
        if self._always is not None:
            counters.fallbacks += 1
            return self._always(self._f, args, kwargs)
        if self._last_key is not None:
            self._record.miss(key, self._entries, leaves, unknown)
        if self._numbers.learn(reads_of(self._f), key, leaves, args, kwargs):
            key = call_key(self._f, leaves, structure, self._numbers.of(structure))
        with PAUSE:
            return self._trace(key, leaves, args, kwargs)

    def _shortcut(self, spec: Specialisation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that serves calls like this one, which `spec` has served; None if there can't be one."""
        f, varying = self._f, self._numbers.of(flatten_call(args, kwargs)[1])
        return make_shortcut(f, spec, args, kwargs, reads_of(f), varying, self._record)

    def _tracer(self, leaves: Sequence[Any], key: Any) -> Tracer:
        """What captures a call."""
        tracer = Tracer(leaves, self._fullgraph, self._name)
        tracer.dump, tracer.reached, tracer.numerics = self._dump, list(tensors_in(key[2])), self._numerics
        tracer.serves = True
        tracer.continued = lambda: None if self._fullgraph else Retracer(self._name, self._numerics)
        return tracer

    def _trace(self, key: Any, leaves: Sequence[Any], args: Any, kwargs: Any) -> Any:
        tracer, mode = self._tracer(leaves, key), local.mode
        start = time.perf_counter()
        hooks = mode.watch(None)  # those around the call are for what the replay saves
        mode.tracer = tracer
        try:
            given, named = self._numbers.standing_in(tracer, key[0], args, kwargs)
            with noticed(tracer, may_have_effects(self._f, key[2])):
                box = [self._f(*given, **named)]
            del given, named
            _settle(tracer)
        except BaseException as error:
            instead = self._instead_of_error(error, hooks, tracer, key, args, kwargs)
            if instead is not MISSED:
                return instead
            tracer.begun.undo() if self._fullgraph else _settle(tracer, always=True)
            raise
        finally:
            mode.tracer = None
            tracer.is_over = True
            mode.watch(hooks)
        if tracer.exact_numbers or self._are_data(tracer.arrays):
            self._numbers.fix(key[0], tracer.exact_numbers)
            self._shortcuts = Shortcuts()
            key = call_key(self._f, leaves, key[0], self._numbers.of(key[0]))
        if tracer.refused:  # and the function has swallowed what it was told
            return self._after_refusal(tracer, key, args, kwargs)
        if tracer.broken is not None:
            self._run_python_from_now_on(tracer.begun.key(key), tracer.broken, tracer.broken_at)
            return tracer.deferred.filled(box[0])
        trace_ms = (time.perf_counter() - start) * 1e3
        reason = self._why_not_replayable(tracer, key, (args, kwargs), box)
        name_inputs(tracer, self._f, args, kwargs)
        result = self._finish(tracer, key, leaves, box[0], reason, trace_ms)
        if result is not REFUSED:
            return result
        tracer.begun.undo()
        return self._f(*args, **kwargs)

    def _instead_of_error(
        self, error: BaseException, hooks: Any, tracer: Tracer, key: Any, args: Any, kwargs: Any
    ) -> Any:
        """What the call gives eagerly, or traced where only floats will do with those; `MISSED` if the error stands."""
        mode = local.mode
        if isinstance(error, Refused):
            mode.tracer = None
            error.__cause__ = error.with_traceback(None).__cause__.with_traceback(None)  # frames hold tensors
            return self._after_refusal(tracer, key, args, kwargs)
        varying = self._numbers.of(key[0])
        if not varying or not isinstance(error, Exception) or isinstance(error, JitgradError):
            return MISSED
        mode.tracer = None
        if tracer.lost is not None or self._what_changed(tracer, key, (args, kwargs)) is not None:
            mode.tracer = tracer
            return MISSED
        tracer.begun.undo()
        uncounted(tracer)
        self._numbers.fix(key[0], varying)
        self._shortcuts = Shortcuts()
        mode.watch(hooks)
        return self.call_at_length(args, kwargs)

    def _finish(
        self, tracer: Tracer, key: Any, leaves: Sequence[Any], result: Any, reason: str | None, trace_ms: float
    ) -> Any:
        self._record.traced(tracer, trace_ms)
        if reason is None:
            try:
                spec = specialise(tracer, result, observer_for(self._dump, self._name), trace_ms)
            except Escapes as escape:
                reason = str(escape)
        if reason is not None:
            if self._fullgraph and key in self._unkept:
                raise CompileError(f"compile(fullgraph=True): {reason}")
            self._unkept_in_a_row += 1
            if key in self._unkept or self._unkept_in_a_row > _MOST_UNKEPT:
                self._run_python_from_now_on(key, reason, None)
            self._unkept[key] = None
            _keep_newest(self._unkept)
            self._record.lost(reason)
            run_segment(tracer)
            return tracer.deferred.filled(result)
        self._unkept_in_a_row = 0
        key = tracer.begun.key(key)
        cuts = tracer.cuts
        arrays = cuts.arrays()
        self._record.kept(tracer)
        self._store(key, graft(self._trees(key), cuts.made, spec, leaves))
        if self._check:
            run = functools.partial(finish, spec, leaves, arrays, cuts.computed)
            return checked(self, [spec], leaves, key[0], run)
        return finish(spec, leaves, arrays, cuts.computed)

    def _walk(self, tree: Any, leaves: Sequence[Any], structure: Any) -> Any:
        """The same as `walk`, compared with the eager call."""
        return checked(self, ends([tree]), leaves, structure, functools.partial(walk, tree, leaves))

    def _are_data(self, arrays: Sequence[Any]) -> bool:
        """Note which of the user's arrays become tensors; whether any was not known yet."""
        reads = reads_of(self._f)
        fresh = [a for a in arrays if not reads.is_data(a)]
        reads.tensors.update((id(a), weakref.ref(a)) for a in fresh)
        return bool(fresh)

    def _after_refusal(self, tracer: Tracer, key: Any, args: Any, kwargs: Any) -> Any:
        """Fail, or go on, as eager code does: from the start, if Python did nothing yet that would happen twice."""
        if self._why_not_replayable(tracer, key, (args, kwargs), [None]) is not None:
            run_segment(tracer)
        tracer.begun.undo()
        return self._f(*args, **kwargs)

    def _why_not_replayable(self, tracer: Tracer, key: Any, call: Any, box: list[Any]) -> str | None:
        """Effects on Python objects that a replay would lose."""
        changed = self._what_changed(tracer, key, call)
        if changed is not None:
            return f"the call changed {changed}"
        if any(sys.getrefcount(array) <= _OWN_REFERENCES for array in tracer.arrays):
            return "a NumPy array made during the call became a tensor"
        if tracer.arrays and tracer.changed_array([s.tensor for s in tracer.outside.values()]):
            return "the call changed a NumPy array"
        reason = tracer.lost or unrepeatable(box)
        if reason is not None:
            return reason
        if any_asks(pytree.flatten(box[0])[0]):
            return "it returns tensors of a class that says what functions mean for it"
        _forget_unseen_histories(box[0])
        kept = _outputs(box[0], tracer)
        if _escaping(tracer, kept):
            gc.collect()
            if _escaping(tracer, kept):
                return "tensors made by the call are kept by Python objects outside it"
        return None

    def _what_changed(self, tracer: Tracer, key: Any, call: Any) -> str | None:
        """What the call goes by that is no longer as it was before."""
        for thing, epoch in tracer.touched.values():
            if thing._epoch != epoch:
                return f"attributes of {type(thing).__name__}"
        changed = tracer.surroundings.changed()
        if changed is not None:
            return changed
        leaves, structure = flatten_call(*call)
        if structure != key[0] or any(
            x is not y for x, y in zip(leaves, tracer.leaves, strict=True) if isinstance(x, Tensor)
        ):
            return "its arguments"
        key_now = call_key(self._f, leaves, structure, self._numbers.of(structure))
        key = tracer.begun.key(key)
        if key_now != key:
            return "its arguments or modes" if key_now[2] == key[2] else "Python values it depends on"
        return None

    def _run_python_from_now_on(self, key: Any, reason: str, location: str | None) -> None:
        self._record.python_runs(reason, location)
        rerun = Rerun(reason, location, self._name, self._numerics)
        if self._unkept_in_a_row > _MOST_UNKEPT:
            self._always = rerun
        self._store(key, [rerun])

    def _trees(self, key: Any) -> list[Tree]:
        """The specialisations of a key."""
        return [e for e in self._entries.get(key, ()) if not isinstance(e, Rerun)]

    def _store(self, key: Any, entries: Sequence[Tree | Rerun]) -> None:
        """Without a lock, which a fork might find taken: of entries stored at once, one may be made again."""
        branch = varies([e for e in entries if not isinstance(e, Rerun)], _MAX_SPECIALISATIONS)
        if branch is not None:
            self._run_python_from_now_on(key, f"{branch.cut.why}, which is another one each time", branch.cut.location)
            return
        self._shortcuts.forget(ends(self._trees(key)))
        self._entries.pop(key, None)
        self._entries[key] = list(entries[-_MAX_WITH_ONE_KEY:])
        _keep_newest(self._entries)
        self._last_key = key

    def explain(self, *, measure: bool = False) -> Explanation:
        """What was captured and compiled, why calls missed, where Python runs; print it. `measure` times kernels."""
        return self._record.explain(self._entries, self._always, measure)

    def dump(self, folder: Any, *, measure: bool = False) -> Any:
        """Write what has been compiled so far into new sub-folders of `folder`: see `jitgrad.dump.write`."""
        return write(self, folder, measure=measure)

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"

    def __reduce__(self) -> Any:
        options = {"fullgraph": self._fullgraph, "dump": self._dump, "check": self._check, "numerics": self._numerics}
        return _remake, (self._f, {**options, "on_recompile": self._record.on_recompile})


def _remake(f: Any, options: dict[str, Any]) -> CompiledFunction:
    return CompiledFunction(f, **options)


def _settle(tracer: Tracer, always: bool = False) -> None:
    """Run what the tracer that took over from this one has left; with `always`, what this one has, too."""
    now = local.mode.tracer
    local.mode.tracer = None
    if isinstance(now, Retracer):
        now.flush()
    elif now is tracer and always:
        run_segment(tracer)
    local.mode.tracer = None


def _keep_newest(table: dict[Any, Any]) -> None:
    while len(table) > _MAX_SPECIALISATIONS:
        table.pop(next(iter(list(table))), None)


def _forget_unseen_histories(result: Any) -> None:
    """Cut off the history of what only detached results stand on: nothing can ask for gradients there any more.

    It would hold tensors that the call made, as `loss.detach()` does, and replays would record it in vain.
    """
    found = {id(t): t._view for t in pytree.flatten(result)[0] if isinstance(t, Tensor)}
    detached = [info for info in found.values() if info is not None and info.origin is None]
    holders = Counter(id(info.base) for info in detached)
    for info in detached:
        base = info.base
        unseen = sys.getrefcount(base) <= holders[id(base)] + 2  # the variable's and the question's
        if unseen and base._node is not None and base._data.__class__ is Value:
            base._node, base._index, base._requires_grad = None, 0, False


def _outputs(result: Any, tracer: Tracer) -> set[int]:
    """Tensors a replay makes again: results, their view bases, and gradients."""
    leaves = pytree.flatten(result)[0]
    found = [x for x in leaves if isinstance(x, Tensor)]
    found += [x._tensor for x in leaves if type(x) is RuntimeFloat]
    found += [g for _, g in tracer.grads.values() if g is not None]
    found += tracer.varying.values()
    found += [t._view.base for t in found if t._view is not None]
    return {id(t) for t in found}


def _escaping(tracer: Tracer, kept: set[int]) -> bool:
    return any(id(t) not in kept for t in tracer.live())


def compile(
    f: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None, mode: Any = None,
    options: Any = None, disable: bool = False, dump: str | None = None, on_recompile: str = "ignore",
    check: bool | None = None, numerics: str = "default",
) -> Any:  # fmt: skip
    """Compile a function, a module, or a whole training step.

    The first call with arguments of new types runs Python once to capture a graph, which is optimised, fused and
    compiled; later calls run machine code. Results, gradients, in-place writes and random numbers equal those of
    the eager function. Where Python needs a value (`if tensor`, a mask), the function is compiled in segments, and
    calls go on under the answer. A function with effects that a replay would lose (printing, appending) is run by
    Python at each call, with its kernels reused, or eagerly where that is faster; a warning names the line.
    `jitgrad.compiler.undo` takes it back.

    Args:
        f: function, method (also a static or class method) or `nn.Module`; a module is returned as itself, with its
            calls compiled. Without `f`, a decorator.
        fullgraph: raise `CompileError` with the user's line where the function would not be one graph.
        dynamic, backend, mode, options: accepted for PyTorch's sake; kernels take sizes at run time, so shapes never
            recompile them, and there is one backend.
        disable: return `f` as it is.
        dump: folder for the text of every stage (see also `JITGRAD_DUMP`).
        on_recompile: "warn" or "error" where a call has to be traced anew, though there is a specialisation; the
            message says what differs (`arg x: dim 0 8 -> 9`).
        check: run each compiled call eagerly as well, from the same state, and raise `CheckError` with the first
            differing node and the user's line if results, writes or gradients differ (default: `config.check`).
        numerics: "default" lets machine code contract `a * b + c` to one instruction that rounds once. With "strict",
            every operation rounds by itself, in the order written: what consists of `+ - * /`, `sqrt` and comparisons
            equals eager code to the bit, and its gradients those of eager code run op by op
            (`config.compile_backward = False`). Sums, means and matrix products add up in the order of their kernels
            and `exp` and its like are those of kernels, so both may differ from eager code by rounding even so.
            Inside another compiled function, that one's setting holds.

    Raises:
        TypeError: `f` is neither callable nor a module.
        ValueError: `on_recompile` or `numerics` is none of those named.

    Example:
        >>> import jitgrad as jg
        >>> @jg.compile
        ... def f(x, y):
        ...     return (x + y).tanh()
        >>> f(jg.zeros(2), jg.zeros(2))
        tensor([0., 0.])
    """
    kept: dict[str, Any] = {"fullgraph": fullgraph, "dump": dump, "on_recompile": on_recompile, "numerics": numerics}
    if f is None:
        return functools.partial(compile, **kept, check=check, disable=disable)
    if disable or isinstance(f, CompiledFunction):
        return f
    kept["check"] = config.check if check is None else check
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(compile(f.__func__, **kept))
    load_if_numba_is()
    if hasattr(f, "_compile_call") and not isinstance(f, type):
        return f._compile_call(lambda g: CompiledFunction(g, **kept))
    if not callable(f) or isinstance(f, type):
        what = (
            f"the class {f.__name__}: compile an instance, or its `forward`"
            if isinstance(f, type)
            else type(f).__name__
        )
        raise TypeError(f"compile: expected a function or a module, not {what}")
    return CompiledFunction(f, **kept)


def undo(f: Any) -> Any:
    """The function or module as it was before `jitgrad.compile`: a function's original, a module itself.

    >>> import jitgrad as jg
    >>> f = lambda x: x + 1
    >>> undo(jg.compile(f)) is f
    True
    """
    if isinstance(f, CompiledFunction):
        return f._f
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(undo(f.__func__))
    if hasattr(f, "_compile_call"):
        f.__dict__.pop("_compiled_call", None)
    return f
