"""How the threads of a block put their shares of accumulators together: by halves, in shared memory.

    shared_f32_0[lane] = part0
    half = width >> 1
    while half > 0:
        cuda.syncthreads()
        if lane < half:
            shared_f32_0[lane] = shared_f32_0[lane] + shared_f32_0[lane + half]
        half >>= 1
    cuda.syncthreads()
    acc0 = acc0 + shared_f32_0[0]
    cuda.syncthreads()

The order is fixed by the size of the block, which the shape decides, so that results repeat to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Expr

from ..loops.folds import Fold
from .expressions import bare, literal
from .memory import HALF_TYPES, MEMORY_NAME

Closed = Callable[[Sequence[Expr], Sequence[str], Callable[[str], None], Callable[[], str]], list[str]]


def _shared_type(dtype: DType) -> DType:
    return dtypes.float32 if dtype in HALF_TYPES else dtype


def _array_names(folds: Iterable[Fold], types: Mapping[int, DType]) -> dict[int, str]:
    """By accumulator, the shared array for it; loops use the same ones in turn."""
    taken: Counter[str] = Counter()
    names: dict[int, str] = {}
    for fold in folds:
        for index in fold.indices:
            short = _shared_type(types[index]).short
            names[index] = f"shared_{short}_{taken[short]}"
            taken[short] += 1
    return names


def declarations(loops: Iterable[Sequence[Fold]], types: Mapping[int, DType], threads: int) -> list[str]:
    """The shared arrays that all loops need, one line each."""
    arrays: dict[str, str] = {}
    for folds in loops:
        for index, name in _array_names(folds, types).items():
            arrays[name] = MEMORY_NAME[_shared_type(types[index])]
    return [f"{name} = cuda.shared.array({threads}, {kind})" for name, kind in arrays.items()]


def starting_value(fold: Fold, place: int, dtype: DType) -> str:
    """What a share starts from: what changes nothing, or the accumulator itself where meeting it again does not."""
    if fold.neutral is None:
        return f"acc{fold.indices[place]}"
    return literal(scalar.const(fold.neutral[place], dtype))  # type: ignore[arg-type]


def _read(name: str, index: str, dtype: DType) -> str:
    return f"({name}[{index}] != 0)" if dtype is dtypes.bool_ else f"{name}[{index}]"


def _write(text: str, dtype: DType) -> str:
    return f"u8({bare(text)})" if dtype is dtypes.bool_ else bare(text)


def fold_lines(folds: Sequence[Fold], types: Mapping[int, DType], closed: Closed) -> Iterator[str]:
    """The lines that put all threads' shares into the accumulators."""
    if not folds:
        return
    names = _array_names(folds, types)
    for index, name in names.items():
        yield f"{name}[lane] = {_write(f'part{index}', types[index])}"
    yield "half = width >> 1"
    yield "while half > 0:"
    yield "    cuda.syncthreads()"
    yield "    if lane < half:"
    for fold in folds:
        low, high = ([_read(names[i], at, types[i]) for i in fold.indices] for at in ("lane", "lane + half"))
        lines, texts = _combined(fold, low, high, closed)
        yield from (f"        {line}" for line in lines)
        targets = ", ".join(f"{names[i]}[lane]" for i in fold.indices)
        yield f"        {targets} = {', '.join(_write(t, types[i]) for t, i in zip(texts, fold.indices))}"
    yield "    half >>= 1"
    yield "cuda.syncthreads()"
    for fold in folds:
        low, high = [f"acc{i}" for i in fold.indices], [_read(names[i], "0", types[i]) for i in fold.indices]
        lines, texts = _combined(fold, low, high, closed)
        yield from lines
        yield f"{', '.join(low)} = {', '.join(bare(t) for t in texts)}"
    yield "cuda.syncthreads()"


def _combined(fold: Fold, low: Sequence[str], high: Sequence[str], closed: Closed) -> tuple[list[str], list[str]]:
    """Lines, and the texts of the accumulators, for two shares put together."""
    lines: list[str] = []

    def new_name() -> str:
        return f"w{len(lines)}"

    texts = closed(fold.combine, [*low, *high], lines.append, new_name)
    return lines, texts
