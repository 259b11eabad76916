"""Orders of axes in memory: `jitgrad.channels_last` and the other memory formats, and the layout `jitgrad.strided`."""

from __future__ import annotations

from typing import Any, Final

from jitgrad.ir.errors import ArgumentTypeError

from .errors import located


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


_FORMATS = {f.name: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)}


def as_memory_format(given: Any) -> memory_format:
    """`given` as a memory format; another library's is known by its name, such as `torch.channels_last`.

    >>> as_memory_format(channels_last)
    jitgrad.channels_last
    """
    if isinstance(given, memory_format):
        return given
    found = _FORMATS.get(str(given).rpartition(".")[2])
    if found is None or isinstance(given, str):
        raise located(ArgumentTypeError(f"memory_format must be a jitgrad.memory_format, not {type(given).__name__}"))
    return found
