"""A kernel as readable `numba.cuda` Python source.

    # b0: in f32, b1: out f32; 1 slots
    def kernel_0123456789ab(b0, b1, s0):
        step = i64(cuda.gridDim.x) * i64(cuda.blockDim.x)
        t = i64(cuda.blockIdx.x) * i64(cuda.blockDim.x) + i64(cuda.threadIdx.x)
        while t < s0:
            b1[t] = libdevice.tanhf(b0[t])
            t += step

Names: `b0` buffers, `s0` slots, `p0` params, `acc0` accumulators, `part0` a thread's share of one, `v0` values used
more than once; `lane` and `width` are a thread's place in its block and the block's size. `f32(...)` and the like
convert. The other functions are libdevice's and those of `device_functions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from jitgrad.ir import dtypes
from jitgrad.ir.scalar import Const, Expr, Fn

from ..loops import walk
from ..loops.analysis import changes
from ..loops.folds import Fold
from ..loops.ir import Init, Kernel, Loop, Stmt, Store, Update
from . import expressions
from .expressions import bare
from .mapping import Mapping
from .memory import MEMORY_NAME
from .partial_results import declarations, fold_lines, starting_value
from .target import Target
from .values import ValuePrinter


def kernel_source(kernel: Kernel, mapping: Mapping, target: Target, name: str, strict: bool) -> str:
    """The source of `kernel` as a function called `name`."""
    return _SourcePrinter(kernel, mapping, target, strict).run(name)


class _SourcePrinter(ValuePrinter):
    """Prints statements; `ValuePrinter` does expressions."""

    def __init__(self, kernel: Kernel, mapping: Mapping, target: Target, strict: bool) -> None:
        super().__init__(kernel, strict)
        self.mapping = mapping
        self.target = target
        self.is_shared = False  # among the threads of a block, by the loop around
        self.folds: tuple[Fold, ...] = tuple(dict.fromkeys(f for folds in mapping.threaded.values() for f in folds))

    def run(self, name: str) -> str:
        """The whole function."""
        kernel = self.kernel
        buffers = ", ".join(f"b{i}: {b.role} {b.dtype.short}" for i, b in enumerate(kernel.buffers))
        params = "".join(f"; p{i}: {d.short}" for i, d in enumerate(kernel.params))
        names = [f"b{i}" for i, b in enumerate(kernel.buffers) if b.role != "local"]
        names += [f"s{i}" for i in range(kernel.slots)] + [f"p{i}" for i in range(len(kernel.params))]
        head = [f"# {buffers}; {kernel.slots} slots{params}", f"def {name}({', '.join(names)}):"]
        self.line_depth = 1
        self._declare()
        self.block(kernel.body)
        return "\n".join(head + self.lines) + "\n"

    def _declare(self) -> None:
        if self.mapping.by_block:
            self.line("lane = i64(cuda.threadIdx.x)")
            self.line("width = i64(cuda.blockDim.x)")
        elif self.mapping.parallel is not None:
            self.line("step = i64(cuda.gridDim.x) * i64(cuda.blockDim.x)")
        for i, buffer in enumerate(self.kernel.buffers):
            if buffer.role == "local":
                space = "shared" if self.mapping.by_block else "local"
                self.line(f"b{i} = cuda.{space}.array({buffer.length}, {MEMORY_NAME[buffer.dtype]})")
        for text in declarations(self.mapping.threaded.values(), self.accumulator_types, self.target.threads):
            self.line(text)

    # Statements

    def block(self, body: Sequence[Stmt]) -> None:
        """Statements in order."""
        with self.counting(body):
            for stmt in body:
                match stmt:
                    case Loop():
                        self._loop(stmt)
                    case Init():
                        self._init(stmt)
                    case Update():
                        self._update(stmt)
                    case Store():
                        self._store(stmt)

    def _init(self, stmt: Init) -> None:
        self.assign(self.accumulator_name(stmt.index), self.value(stmt.value))
        self.forget({("acc", stmt.index)})

    def _update(self, stmt: Update) -> None:
        values = [bare(self.value(v)) for v in stmt.values]
        self.line(f"{', '.join(self.accumulator_name(i) for i in stmt.indices)} = {', '.join(values)}")
        self.forget({("acc", i) for i in stmt.indices})

    def _store(self, stmt: Store) -> None:
        by_all = self.mapping.by_block and not self.is_shared
        with self._handed_over(by_all and stmt.buffer in self.mapping.shared):
            dtype = self.kernel.buffers[stmt.buffer].dtype
            index, value = self.value(stmt.index), self.value(stmt.value)
            with self.indented("if lane == 0:" if by_all else None):
                self.line(f"b{stmt.buffer}[{bare(index)}] = {expressions.stored(value, dtype)}")
        self.forget({("buffer", stmt.buffer)})

    @contextmanager
    def _handed_over(self, needed: bool) -> Iterator[None]:
        """What is written inside is read by other threads: barriers before, for those still reading, and after."""
        if needed:
            self.line("cuda.syncthreads()")
        yield
        if needed:
            self.line("cuda.syncthreads()")

    # Loops

    def _loop(self, loop: Loop) -> None:
        changed = changes(loop)
        self.forget(changed)
        self.name_fixed(loop, changed)
        if loop is self.mapping.parallel:
            self._parallel_loop(loop)
        elif loop in self.mapping.threaded and not self.is_shared:
            with self._handed_over(bool(walk.stored_buffers(loop.body) & self.mapping.shared)):
                self._threaded_loop(loop, self.mapping.threaded[loop])
        else:
            self._serial_loop(loop)
        self.forget(changed)

    def _parallel_loop(self, loop: Loop) -> None:
        name, start = loop.var.name, self.value(loop.start)
        offset = "" if start == "0" else f"{start} + "
        if self.mapping.by_block:
            first, step = "i64(cuda.blockIdx.x)", "i64(cuda.gridDim.x)"
        else:
            first, step = "i64(cuda.blockIdx.x) * i64(cuda.blockDim.x) + i64(cuda.threadIdx.x)", "step"
        stop = self._bound(loop)
        self.line(f"{name} = {offset}{first}")
        self._strided(loop, name, stop, step)

    def _bound(self, loop: Loop) -> str:
        """The end of a loop, as a name or a number."""
        stop = self.value(loop.stop)
        if stop.isalnum():
            return stop
        self.assign(f"{loop.var.name}_stop", stop)
        return f"{loop.var.name}_stop"

    def _strided(self, loop: Loop, name: str, stop: str, step: str) -> None:
        """Iterations from `name` on in strides: several at a time as long as there are as many, then one by one."""
        several = self.mapping.unrolled.get(loop, 1)
        if several > 1:
            with self.indented(f"while {name} + {several - 1} * {step} < {stop}:"), self.scope():
                self._side_by_side(loop, name, step, several)
                self.line(f"{name} += {several} * {step}")
        with self.indented(f"while {name} < {stop}:"), self.scope():
            self.block(loop.body)
            self.line(f"{name} += {step}")

    def _side_by_side(self, loop: Loop, name: str, step: str, several: int) -> None:
        """The loads of several iterations, then what is done with each, in order."""
        places = [name] + [f"{name}_{k}" for k in range(1, several)]
        for before, place in pairwise(places):
            self.line(f"{place} = {before} + {step}")
        roots = [e for s in loop.body for e in walk.expressions(s)]
        accs = {("acc", i) for i in walk.updated_accumulators(loop.body)}
        early = [x for x in walk.loads(roots) if not self.dependencies.of(x) & accs]
        for x in early:
            if not self.dependencies.of(x) & changes(loop):
                self.name(x)
        known: list[dict[Expr, str]] = []
        for place in places:
            with self.counting(loop.body), self.scope() as names, self.renamed(loop.var.name, place):
                for x in early:
                    self.name(x)
                known.append(dict(names))
        for place, names in zip(places, known):
            with self.scope() as own, self.renamed(loop.var.name, place):
                own.update(names)
                self.block(loop.body)

    def _threaded_loop(self, loop: Loop, folds: tuple[Fold, ...]) -> None:
        """A loop whose iterations the block's threads share."""
        start, stop, name = self.value(loop.start), self._bound(loop), loop.var.name
        for fold in folds:
            for m, index in enumerate(fold.indices):
                self.line(f"part{index} = {starting_value(fold, m, self.accumulator_types[index])}")
        inside = {index for fold in folds for index in fold.indices}
        with self._hoisted(loop, start, stop):
            self.line(f"{name} = {'lane' if start == '0' else f'{start} + lane'}")
            with self.sharing(), self.standing_for(inside):
                self._strided(loop, name, stop, "width")
        for text in fold_lines(folds, self.accumulator_types, self.closed):
            self.line(text)

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Inside, each thread has iterations of its own."""
        self.is_shared = True
        yield
        self.is_shared = False

    def _serial_loop(self, loop: Loop) -> None:
        condition = _condition_of(loop)
        if condition is not None:
            with self.indented(f"if {bare(self.value(condition))}:"), self.scope():
                self.block(loop.body)
            return
        start, stop = self.value(loop.start), self.value(loop.stop)
        with self._hoisted(loop, start, stop):
            bounds = bare(stop) if start == "0" else f"{bare(start)}, {bare(stop)}"
            with self.indented(f"for {loop.var.name} in range({bounds}):"), self.scope():
                self.block(loop.body)

    @contextmanager
    def _hoisted(self, loop: Loop, start: str, stop: str) -> Iterator[None]:
        """Loads that are the same in every iteration stand before the loop, under the condition that it runs at all.

        The compiler can't move them out of a loop that stores, since it does not know that buffers don't overlap.
        """
        changed = changes(loop)
        roots = [e for s in loop.body if not isinstance(s, Loop) for e in walk.expressions(s)]
        fixed = [x for x in walk.loads(roots) if not self.dependencies.of(x) & changed and self.known(x) is None]
        if not fixed or not walk.stored_buffers(loop.body):
            yield
            return
        with self.indented(f"if {start} < {stop}:"), self.scope():
            for x in fixed:
                self.name(x)
            yield


def _condition_of(loop: Loop) -> Expr | None:
    """The bool that says whether a loop of one iteration, or none, runs; `None` for other loops."""
    stop, first = loop.stop, loop.start
    is_flag = stop.fn is Fn.CONVERT and stop.args[0].dtype is dtypes.bool_
    if not is_flag or not (isinstance(first, Const) and first.value == 0):
        return None
    used = (e for s in walk.statements(loop.body) for e in walk.postorder(walk.expressions(s)))
    return None if any(e is loop.var for e in used) else stop.args[0]


__all__ = ["kernel_source"]
