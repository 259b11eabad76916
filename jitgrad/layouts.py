"""Orders of axes in memory: `jitgrad.channels_last` and the other memory formats, and the layout `jitgrad.strided`."""

from __future__ import annotations

from typing import Final


class memory_format:
    """An order in which a tensor's axes may lie in memory; `order` lists them from outermost to innermost.

    >>> import jitgrad as jg
    >>> x = jg.zeros(2, 3, 4, 5).to(memory_format=jg.channels_last)
    >>> x.stride()
    (60, 1, 15, 3)
    """

    __slots__ = ("name", "order")

    def __init__(self, name: str, order: tuple[int, ...] | None = None) -> None:
        self.name = name
        self.order = order

    def __repr__(self) -> str:
        return f"jitgrad.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout:
    """How elements are stored; there is only `jitgrad.strided`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"jitgrad.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format: Final = memory_format("contiguous_format")
preserve_format: Final = memory_format("preserve_format")
channels_last: Final = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d: Final = memory_format("channels_last_3d", (0, 2, 3, 4, 1))
strided: Final = layout("strided")
