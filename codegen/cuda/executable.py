"""A compiled graph on a CUDA device: call it with arrays, get device arrays.

    run = compile_graph(graph, device=Device("cuda", 0))
    (y,) = run([x])

It runs the same `Plan` as the CPU: one arena, kernels, matrix products by cuBLAS, copies. An op that has no kernel runs
in a library of the device (`library`), or on the host: its operands are copied there, and its results back;
`stats.host_steps` says how many of those there are. Inputs
of any strides are taken; a host array (a number that Python gives anew) is copied to the device first.

What runs between calls of the host is launched as one CUDA graph where the memory is where it was in an earlier call
(`segments`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import InternalError
from jitgrad.ir.types import Device

from ..fuse.program import ControlStep, HostStep, KernelStep, ProductStep
from ..loops.ir import Kernel
from ..lower import AnyKernel
from ..plan import CopyStep, Plan
from ..stats import Stats
from .control import control_step
from .library import RunInLibrary
from .runtime.array import DeviceArray
from .runtime.copies import assign, contiguous, download
from .runtime.gpu import Gpu, gpu
from .runtime.protocol import Array, CompiledKernel
from .segments import segments_of
from .steps import CopiedBytes, LaunchedKernel, MultipliedMatrices, Regions, RunOnHost, Step

AnyArray = DeviceArray | Array
_ALIGNMENT: Final = 16  # bytes


class CudaExecutable:
    """A plan with its kernels, for one device. Made by `compile_graph`."""

    __slots__ = (
        "_constants", "_device", "_first_output", "_inputs", "_outputs", "_segments", "_text", "_writable", "aliases",
        "kernels", "name", "plan", "stats",
    )  # fmt: skip

    def __init__(
        self, name: str, plan: Plan, kernels: Mapping[AnyKernel, CompiledKernel], stats: Stats, text: Any,
        device: Device,
    ) -> None:  # fmt: skip
        graph = plan.program.graph
        self.name = name
        self.plan = plan
        self.kernels = tuple(kernels.values())
        self.stats = stats
        self.aliases: Mapping[int, int] = plan.aliases
        index = self._device = device.index or 0
        self._text = text
        self._inputs = tuple((v.type.shape, v.type.dtype.np) for v in graph.inputs)
        self._first_output = len(graph.inputs)
        self._outputs = tuple((k, v.type.shape, v.type.dtype.np) for k, v in enumerate(graph.outputs))
        self._writable = tuple(sorted(set(plan.aliases.values())))
        self._constants: list[DeviceArray] | None = None
        self._segments = segments_of(steps_of(plan, kernels, gpu(index)))
        stats.host_steps = sum(isinstance(s, RunOnHost) for s in self._segments)

    @property
    def steps(self) -> tuple[Any, ...]:
        """The plan's steps."""
        return tuple(self.plan.steps)

    def __call__(self, inputs: Sequence[AnyArray]) -> list[AnyArray]:
        """The outputs. An output that aliases an input is that input's array itself."""
        g = gpu(self._device)
        self._check(inputs, g)
        numbers = [x for x in inputs if not isinstance(x, DeviceArray)]
        on_device = iter(self._uploaded(g, numbers) if numbers else ())
        plain = [contiguous(x) if isinstance(x, DeviceArray) else next(on_device) for x in inputs]
        outputs: list[AnyArray] = []
        arrays: list[DeviceArray] = [*plain]
        for k, shape, dtype in self._outputs:
            source = self.aliases.get(k)
            made = g.empty(shape, dtype) if source is None else plain[source]
            arrays.append(made)
            outputs.append(made if source is None else inputs[source])
        arrays += self._uploaded_constants(g)
        arena = g.memory(self.plan.arena_bytes) if self.plan.arena_bytes else None
        pointers = (*[x.pointer for x in arrays], 0 if arena is None else arena.pointer)
        stream = g.stream
        for segment in self._segments:
            segment.run(g, pointers, stream)
        if self._writable:
            self._write_back(inputs, plain)
        return outputs

    def _check(self, inputs: Sequence[AnyArray], g: Gpu) -> None:
        """Shapes and dtypes are the kernels' only protection."""
        if len(inputs) != self._first_output:
            raise InternalError(f"{self.name} takes {self._first_output} inputs, {len(inputs)} were given")
        for x, (shape, dtype) in zip(inputs, self._inputs):
            if x.shape != shape or x.dtype != dtype:
                raise InternalError(f"{self.name} was compiled for {dtype}{list(shape)}, not {x.dtype}{list(x.shape)}")
            if isinstance(x, DeviceArray) and x.device != g.device:
                raise InternalError(f"{self.name} was compiled for {g.device}, and an input is on {x.device}")
        for k in self._writable:
            if not inputs[k].flags.writeable:
                raise InternalError(f"{self.name} writes to input {k}, which is read-only")

    def _uploaded_constants(self, g: Gpu) -> list[DeviceArray]:
        if self._constants is None:
            arrays = [np.array(op.literal.array, order="C") for op in self.plan.program.constants.values()]
            kept, g.kept = g.kept, None
            try:
                self._constants = [g.upload(x) for x in arrays]
            finally:
                g.kept = kept
        return self._constants

    @staticmethod
    def _uploaded(g: Gpu, arrays: Sequence[Array]) -> list[DeviceArray]:
        """Host arrays, numbers for the most part, on the device by one copy."""
        places = [0]
        for x in arrays:
            places.append(places[-1] + -(-max(x.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT)
        staged = np.zeros(places[-1], np.uint8)
        for at, x in zip(places, arrays):
            staged[at : at + x.nbytes] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        memory = g.upload(staged).memory
        return [DeviceArray(memory, x.shape, x.dtype, None, at) for at, x in zip(places, arrays)]

    def _write_back(self, inputs: Sequence[AnyArray], plain: Sequence[DeviceArray]) -> None:
        """Copies that were made of written inputs go back to them, those of the host by one copy."""
        staged: Array | None = None
        for i in self._writable:
            target, source = inputs[i], plain[i]
            if isinstance(target, DeviceArray):
                if target is not source:
                    assign(target, source)
                continue
            if staged is None:
                size = source.memory.nbytes
                staged = download(DeviceArray(source.memory, (size,), np.dtype(np.uint8)))
            part = staged[source.offset : source.offset + target.nbytes]
            np.copyto(target, part.view(target.dtype).reshape(target.shape))

    def dump(self, folder: Path | None = None) -> Mapping[str, str]:
        """The stages as text: `graph`, `groups`, `kernels`, `plan`, `cuda`, `ptx`; in files of `folder` too."""
        pieces = self._text.pieces(self)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for stage, text in pieces.items():
                (folder / f"{stage}.txt").write_text(text, "utf-8")
        return pieces  # type: ignore[no-any-return]


def compile_for(device: Device, kernels: Sequence[Kernel], numerics: str) -> list[CompiledKernel]:
    """The kernels for a device, in order."""
    g = gpu(device.index)
    return g.runtime.compile(kernels, numerics, g.index)


def steps_of(plan: Plan, kernels: Mapping[AnyKernel, CompiledKernel], g: Gpu) -> list[Step]:
    """What a call does, in order."""
    regions = Regions.of(plan)
    steps: list[Step] = []
    for step, launches in zip(plan.steps, plan.launches):
        match step:
            case ControlStep():
                steps.append(control_step(plan, step, lambda inner: steps_of(inner, kernels, g)))
            case HostStep(node=node):
                steps.append(RunInLibrary.of(node, regions))
            case KernelStep():
                steps += [LaunchedKernel.of(x, kernels[x.kernel], regions, g) for x in launches if x.extent]
            case ProductStep(node=node):
                steps.append(MultipliedMatrices.of(node, regions))
            case CopyStep():
                steps.append(CopiedBytes.of(step, regions))
    return steps
