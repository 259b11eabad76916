"""CUDA graphs: work that is captured once and launched again as a whole."""

from __future__ import annotations

import contextlib
from typing import Any

from jitgrad.ir.errors import OperationError

from ..backend import gpus
from ..errors import located
from .devices import gpu
from .streams import Stream, StreamContext, current_stream


class CUDAGraph:
    """Work captured from a stream. `replay` runs it again, on the memory that it was captured with.

    What Python computed while capturing (numbers, random seeds) is part of it and stays as it was. Nothing may wait for
    the device meanwhile: no `item()`, no printing, no operation that runs on the host.

        g = jg.cuda.CUDAGraph()
        with jg.cuda.graph(g):
            y = f(x)
        x.copy_(new)
        g.replay()  # y has the new result
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._gpu: Any = None
        self._number: int | None = None
        self._kept: list[Any] = []
        self._inside: contextlib.ExitStack | None = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Note what the current stream is given from now on."""
        if self._inside is not None or self._number is not None:
            raise located(OperationError("This CUDAGraph instance already owns a captured graph; reset() it first"))
        self._gpu = gpu()
        self._gpu.runtime.begin_capture(self._gpu.stream)
        self._inside = contextlib.ExitStack()
        self._inside.enter_context(gpus().capturing(self._gpu, self._kept))

    def capture_end(self) -> None:
        """The graph is complete."""
        if self._inside is None:
            raise located(OperationError("capture_end: capture_begin was not called"))
        self._inside.close()
        self._inside = None
        self._number = self._gpu.runtime.end_capture(self._gpu.stream)

    def replay(self) -> None:
        """Run it on the current stream."""
        if self._number is None:
            raise located(OperationError("Called CUDAGraph.replay without a preceding successful capture."))
        self._gpu.runtime.replay(self._number, self._gpu.stream)

    def reset(self) -> None:
        """Forget what was captured, and let go of its memory."""
        if self._number is not None:
            self._gpu.runtime.release_graph(self._number)
        self._number = None
        self._kept = []

    def pool(self) -> Any:
        """A handle of its memory; other graphs may be given it, and then have memory of their own all the same."""
        return id(self._kept), 0

    def __del__(self) -> None:
        if getattr(self, "_number", None) is not None:
            self.reset()


def graph_pool_handle() -> Any:
    """A handle for graphs to share memory by; they have memory of their own all the same."""
    return 0, 0


def is_current_stream_capturing() -> bool:
    """Whether the current stream's work is being captured."""
    return bool(gpus().machine.gpus) and gpu().kept is not None


class graph:
    """A context that captures into a `CUDAGraph`, on a stream of its own."""

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        self.cuda_graph = cuda_graph
        self._stream = StreamContext(Stream() if stream is None else stream)

    def __enter__(self) -> None:
        before = current_stream()
        self._stream.__enter__()
        current_stream().wait_stream(before)
        gpu().synchronize()
        self.cuda_graph.capture_begin()

    def __exit__(self, *exc: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self._stream.__exit__(*exc)
