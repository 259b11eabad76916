"""An independent check of plans: runs one over a model of memory in which every byte knows whose value it holds.

A step may read a value only while all its bytes are still there; it may write over what it reads only where the
kernel's own text shows that each element is read before it is written, at the same address; and it may write to no
constant, and to no input that nothing aliases. In the end each output must be found in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Value

from .fuse.program import ControlStep, KernelStep, TileStep
from .loops import walk
from .loops.ir import Load, Loop, Stmt, Store
from .lower import AnyKernel, Launch, Operand, Scratch, nbytes_of
from .plan import CopyStep, Place, Plan, reads_of, writes_of


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes `start` to `stop` of a region."""

    region: tuple[str, int]
    start: int
    stop: int

    def overlaps(self, other: _Span) -> bool:
        return self.region == other.region and self.start < other.stop and other.start < self.stop


@dataclass(slots=True)
class _Memory:
    """Who owns which bytes, by region."""

    owned: dict[tuple[str, int], set[tuple[Operand, _Span]]] = field(default_factory=lambda: defaultdict(set))

    def holds(self, operand: Operand, span: _Span) -> bool:
        """Whether all of `operand` is in `span`."""
        return (operand, span) in self.owned[span.region]

    def write(self, operand: Operand, span: _Span) -> None:
        """`operand` is now in `span` too; whatever was there is lost."""
        region = self.owned[span.region]
        region -= {entry for entry in region if entry[1].overlaps(span)}
        region.add((operand, span))


def verify_plan(plan: Plan) -> None:
    """Raise `InternalError` if some step would read a value that is not there (any more)."""
    _Verifier(plan).run()


class _Verifier:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program = plan.program
        self.memory = _Memory()
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
                    if nbytes_of(source) != nbytes_of(result):
                        self.fail(n, "a copy between values of different sizes")
                    self.write(n, self.home(result), _span(target, nbytes_of(result)))
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
        return _span(self.plan.place(operand), nbytes_of(operand))

    def read(self, n: int, operand: Operand) -> None:
        """All bytes must be there."""
        if nbytes_of(operand) and not self.memory.holds(self.home(operand), self.span(operand)):
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
        if span.region == ("arena", 0) and span.stop > self.plan.arena_bytes:
            self.fail(n, f"writes to bytes {span.start} to {span.stop} of an arena of {self.plan.arena_bytes}")
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
            if plan.arena_bytes > inner.arena.nbytes:
                self.fail(n, f"an inner arena of {plan.arena_bytes} bytes in {inner.arena.nbytes}")

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
                if not overwrites_safely(launch.kernel, k):
                    self.fail(n, f"{written!r} is written over {operand!r}, which is still read")
                if self.span(written) != self.span(operand):
                    self.fail(n, f"{written!r} is placed elsewhere than {operand!r}, whose memory it takes")
        for operand, buffer in buffers:
            if buffer.role != "in":
                self.write(n, self.home(taken.get(operand, operand)), self.span(operand))

    def outputs(self) -> None:
        """Each output in its place."""
        for k, value in enumerate(self.program.graph.outputs):
            home = self.program.memory_of(value)
            want = _span(self.plan.output_place(k), nbytes_of(value))
            if want.start != want.stop and not self.memory.holds(home, want):
                raise InternalError(f"invalid plan: output {k} is not in {self.plan.output_place(k)}")


def _span(place: Place, nbytes: int) -> _Span:
    return _Span((place.region, place.index), place.offset, place.offset + nbytes)


def overwrites_safely(kernel: AnyKernel, buffer: int) -> bool:
    """Whether every load of `buffer` is at the very index of its only store, and comes before it."""
    stores = [s for s in walk.statements(kernel.body) if isinstance(s, Store) and s.buffer == buffer]
    if len(stores) != 1:
        return False
    seen = False

    def visit(body: Iterable[Stmt]) -> bool:
        nonlocal seen
        for stmt in body:
            for e in walk.postorder(walk.expressions(stmt)):
                if isinstance(e, Load) and e.buffer == buffer and (seen or e.args != (stores[0].index,)):
                    return False
            seen = seen or stmt is stores[0]
            if isinstance(stmt, Loop) and not visit(stmt.body):
                return False
        return True

    return visit(kernel.body)
