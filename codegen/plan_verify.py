"""An independent check of plans: runs one over a model of memory in which every byte knows whose value it holds.

A step may read a value only while all its bytes are still there; it may write over what it reads only where the
kernel's own text shows that each element is read before it is written, at the same address; and it may write to no
constant, and to no input that nothing aliases. In the end each output must be found in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Value
from jitgrad.ir.scalar import Expr
from jitgrad.ir.tracked import Lookup
from jitgrad.ir.types import TensorType

from .fuse.program import ControlStep, KernelStep, TileStep
from .loops import walk
from .loops.ir import Loop, Stmt, Store
from .lower import AnyKernel, Launch, Operand, Scratch
from .plan import CopyStep, Place, Plan, reads_of, writes_of


class _Span(NamedTuple):
    """Bytes `start` to `stop` of a region."""

    region: tuple[str, int]
    start: int
    stop: int

    def overlaps(self, other: _Span) -> bool:
        return self.start < other.stop and other.start < self.stop and self.region == other.region


class _Memory:
    """Who owns which bytes, by region."""

    def __init__(self) -> None:
        self._owned: defaultdict[tuple[str, int], dict[tuple[Operand, int, int], None]] = defaultdict(dict)

    def holds(self, operand: Operand, span: _Span) -> bool:
        """Whether all of `operand` is in `span`."""
        return (operand, span.start, span.stop) in self._owned[span.region]

    def write(self, operand: Operand, span: _Span) -> None:
        """`operand` is now in `span` too; whatever was there is lost."""
        region, start, stop = self._owned[span.region], span.start, span.stop
        for lost in [x for x in region if start < x[2] and x[1] < stop]:
            del region[lost]
        region[operand, start, stop] = None


def verify_plan(plan: Plan) -> None:
    """Raise `InternalError` if some step would read a value that is not there (any more).

    A recorded plan is verified at the numbers that it was recorded with.
    """
    _Verifier(plan).run()


class _Verifier:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program = plan.program
        self.memory = _Memory()
        self.now = Lookup(None)
        self.arena_bytes = self.now(plan.arena_bytes)
        self._spans: dict[Operand, _Span] = {}
        self._safe: dict[tuple[AnyKernel, int], bool] = {}
        self.writable = {("output", k) for k in range(len(self.program.graph.outputs))}
        self.writable |= {("input", i) for i in plan.aliases.values()} | {("arena", 0)}

    def run(self) -> None:
        """Step by step."""
        for value in (*self.program.graph.inputs, *self.program.constants):
            self.memory.write(value, self.span(value))
        for n, step in enumerate(self.plan.steps):
            match step:
                case CopyStep(source=source, target=target, result=result):
                    self.read(n, source)
                    if self.nbytes(source) != self.nbytes(result):
                        self.fail(n, "a copy between values of different sizes")
                    self.write(n, self.home(result), self.span_at(target, result))
                case KernelStep() | TileStep():
                    taken: dict[Operand, Value] = {
                        self.plan.in_place[v]: v for v in writes_of(step) if v in self.plan.in_place
                    }
                    for launch in self.plan.launches[n]:
                        self.launch(n, launch, taken)
                    for value in writes_of(step):
                        self.read(n, value)
                case _:
                    reads, writes = reads_of(self.program, step), writes_of(step)
                    self.all_read(n, reads)
                    self.disjoint(n, writes, reads)
                    if isinstance(step, ControlStep):
                        self.inside(n, step, [*reads, *writes])
                    for value in writes:
                        self.write(n, value, self.span(value))
        self.outputs()

    def fail(self, n: int, rule: str) -> NoReturn:
        raise InternalError(f"invalid plan: step {n} ({type(self.plan.steps[n]).__name__}): {rule}")

    def home(self, operand: Operand) -> Operand:
        """What is in memory where `operand` is."""
        return operand if isinstance(operand, Scratch) else self.program.memory_of(operand)

    def span(self, operand: Operand) -> _Span:
        """The bytes of a value by the plan."""
        found = self._spans.get(operand)
        if found is None:
            found = self._spans[operand] = self.span_at(self.plan.place(operand), operand)
        return found

    def span_at(self, place: Place, operand: Operand) -> _Span:
        """The bytes of a value if it is in `place`."""
        start = self.now(place.offset)
        return _Span((place.region, place.index), start, start + self.nbytes(operand))

    def nbytes(self, operand: Operand) -> int:
        """The length of a value or of scratch memory."""
        if isinstance(operand, Scratch):
            return Scratch(operand.dtype, self.now(operand.length)).nbytes
        kind: TensorType = self.now(operand.type)
        return kind.nbytes

    def read(self, n: int, operand: Operand) -> None:
        """All bytes must be there."""
        span = self.span(operand)
        if span.start != span.stop and not self.memory.holds(self.home(operand), span):
            self.fail(n, f"{operand!r} is read from {self.plan.place(operand)}, where it is not (any more)")

    def all_read(self, n: int, operands: Iterable[Operand]) -> None:
        for operand in operands:
            self.read(n, operand)

    def write(self, n: int, operand: Operand, span: _Span) -> None:
        """Only where it is allowed."""
        if span.start == span.stop:
            return
        if span.region not in self.writable:
            self.fail(n, f"writes to {span.region[0]} {span.region[1]}")
        if span.region == ("arena", 0) and span.stop > self.arena_bytes:
            self.fail(n, f"writes to bytes {span.start} to {span.stop} of an arena of {self.arena_bytes}")
        self.memory.write(operand, span)

    def disjoint(self, n: int, writes: Iterable[Operand], others: Iterable[Operand]) -> None:
        """A written buffer overlaps no other."""
        rest = [self.span(o) for o in others]
        for operand in writes:
            if any(self.span(operand).overlaps(s) for s in rest):
                self.fail(n, f"{operand!r} is written over an operand")

    def inside(self, n: int, step: ControlStep, others: Iterable[Operand]) -> None:
        """The plans of sub-graphs, and memory for them apart from all else."""
        inner = self.plan.inner[step]
        taken = list(others)
        for buffer in inner.buffers:
            self.disjoint(n, [buffer], taken)
            taken.append(buffer)
            self.write(n, buffer, self.span(buffer))
        for plan in inner.plans:
            verify_plan(plan)
            wanted, given = self.now(plan.arena_bytes), self.nbytes(inner.arena)
            if wanted > given:
                self.fail(n, f"an inner arena of {wanted} bytes in {given}")

    def launch(self, n: int, launch: Launch, taken: Mapping[Operand, Value]) -> None:
        """One kernel. `taken`: operands whose memory a result takes over."""
        buffers = list(zip(launch.operands, launch.kernel.buffers))
        self.all_read(n, (o for o, b in buffers if b.role == "in"))
        for k, (operand, buffer) in enumerate(buffers):
            if buffer.role == "in":
                continue
            self.disjoint(n, [operand], (o for j, (o, _) in enumerate(buffers) if j != k))
            written = taken.get(operand, operand)
            if written is not operand:
                self.read(n, operand)
                if not self.is_safe(launch.kernel, k):
                    self.fail(n, f"{written!r} is written over {operand!r}, which is still read")
                if self.span(written) != self.span(operand):
                    self.fail(n, f"{written!r} is placed elsewhere than {operand!r}, whose memory it takes")
        for operand, buffer in buffers:
            if buffer.role != "in":
                self.write(n, self.home(taken.get(operand, operand)), self.span(operand))

    def is_safe(self, kernel: AnyKernel, buffer: int) -> bool:
        """`overwrites_safely`, asked once of each kernel."""
        found = self._safe.get((kernel, buffer))
        if found is None:
            found = self._safe[kernel, buffer] = overwrites_safely(kernel, buffer)
        return found

    def outputs(self) -> None:
        """Each output in its place."""
        for k, value in enumerate(self.program.graph.outputs):
            home = self.program.memory_of(value)
            want = self.span_at(self.plan.output_place(k), value)
            if want.start != want.stop and not self.memory.holds(home, want):
                raise InternalError(f"invalid plan: output {k} is not in {self.plan.output_place(k)}")


def overwrites_safely(kernel: AnyKernel, buffer: int) -> bool:
    """Whether every load of `buffer` is at the very index of its only store, and comes before it.

    Each of several loops over one variable may have such a store, if it starts where the loop in front of it stops:
    then they have elements of their own.
    """
    indices = {s.index for s in walk.statements(kernel.body) if isinstance(s, Store) and s.buffer == buffer}
    return len(indices) == 1 and _stored_after(kernel.body, buffer, indices.pop(), False) is not None


def _stored_after(body: Iterable[Stmt], buffer: int, index: Expr, stored: bool) -> bool | None:
    """Whether `buffer` has been stored to after `body`; None where it is read elsewhere than at `index`, or is read or
    stored to where it has been already."""
    before, at_first = None, stored
    for stmt in body:
        loads = [e for e in walk.loads(walk.expressions(stmt)) if e.buffer == buffer]
        if any(stored or e.args != (index,) for e in loads):
            return None
        if isinstance(stmt, Store) and stmt.buffer == buffer:
            if stored:
                return None
            stored = True
        if isinstance(stmt, Loop):
            if before is None or stmt.var is not before.var or stmt.start is not before.stop:
                at_first = stored
            found = _stored_after(stmt.body, buffer, index, at_first)
            if found is None:
                return None
            before, stored = stmt, stored or found
    return stored
