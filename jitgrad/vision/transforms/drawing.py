"""Single random numbers, as transforms need them: those of `jitgrad.rand`, drawn in blocks."""

from __future__ import annotations

from jitgrad.ir.ops.random import RandomUniform

from ...random import default_generator

_LENGTH = 256


class _Block:
    """The next uniform numbers of a stream. An element depends on its counter alone, so that a block holds the same
    numbers as single draws, for a fraction of their cost."""

    def __init__(self) -> None:
        self.found: tuple[int, int, list[float]] = (0, 0, [])  # seed, the first one's offset, numbers


_block = _Block()


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """A number from `low` up to `high`; for 0 and 1 what `jitgrad.rand(())` would give next.

    >>> import jitgrad as jg
    >>> _ = jg.manual_seed(3)
    >>> first = uniform()
    >>> _ = jg.manual_seed(3)
    >>> first == jg.rand(()).item()
    True
    """
    generator = default_generator
    seed, start, numbers = _block.found
    place = generator.offset - start
    if seed != generator.seed_value or not 0 <= place < len(numbers):
        seed, start, place = generator.seed_value, generator.offset, 0
        numbers = RandomUniform((_LENGTH,)).reference(seed, start).tolist()
        _block.found = (seed, start, numbers)
    generator.offset += 1
    return low + (high - low) * numbers[place]


def integer(n: int) -> int:
    """A whole number from 0 to `n - 1`."""
    return int(uniform() * n)


def permutation(n: int) -> list[int]:
    """The numbers below `n` in random order (Fisher and Yates)."""
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        other = integer(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
