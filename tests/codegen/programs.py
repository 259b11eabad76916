"""Running fused and lowered programs launch by launch in Python, without plan or driver."""

import itertools
from typing import Any

import numpy as np

from jitgrad.codegen.cpu import abi, kernels
from jitgrad.codegen.fuse import HostStep, KernelStep, ProductStep, fuse
from jitgrad.codegen.fuse.program import Program
from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.loops.verify import verify_kernel
from jitgrad.codegen.lower import Launch, lower
from jitgrad.codegen.options import DEFAULT, CompileOptions
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.interpreter import apply_reference


def run_launch(launch: Launch, arrays: list[Any], native: bool) -> None:
    """One launch on flat arrays."""
    verify_kernel(launch.kernel)
    if native:
        address = kernels.compile_kernels([launch.kernel])[0].address
        params = abi.pack_params(launch.kernel.params, launch.params)
        for begin, end in spans(launch.extent):
            abi.call_kernel(address, arrays, launch.slots, params, begin, end)
    else:
        interpret(launch.kernel, arrays, launch.slots, launch.params)


def spans(extent: int) -> list[tuple[int, int]]:
    """The whole range in three uneven pieces, as threads would take it."""
    cuts = [0, extent // 3, extent // 2, extent]
    return list(itertools.pairwise(cuts))


def run_program(program: Program, inputs: list[Any], native: bool) -> list[Any]:
    """The outputs of a program."""
    memory: dict[Any, Any] = {v: np.ascontiguousarray(x) for v, x in zip(program.graph.inputs, inputs)}
    memory.update({v: np.array(op.literal.array) for v, op in program.constants.items()})

    def read(value: Value) -> Any:
        return memory[program.memory_of(value)].reshape(value.shape)

    for step in program.steps:
        if isinstance(step, KernelStep):
            for v in step.stores:
                memory[v] = np.zeros(v.shape, v.dtype)
            scratch: dict[Any, Any] = {}
            for launch in lower(program, step, {}):
                arrays = []
                for operand in launch.operands:
                    if isinstance(operand, Value):
                        arrays.append(memory[program.memory_of(operand)].reshape(-1))
                    else:
                        empty = np.zeros(operand.length, operand.dtype.np)
                        arrays.append(scratch.setdefault(operand, empty))
                run_launch(launch, arrays, native)
        else:
            assert isinstance(step, (ProductStep, HostStep))
            node = step.node
            operands = [value_of(program, memory, v) for v in node.operands]
            results = apply_reference(node.op, operands)
            memory.update({v: np.ascontiguousarray(r) for v, r in zip(node.results, results)})
    return [read(v) for v in program.graph.outputs]


def value_of(program: Program, memory: dict[Any, Any], value: Value) -> Any:
    """A value in memory, or one that matrix products read through views."""
    home = program.memory_of(value)
    if home in memory:
        return memory[home].reshape(value.shape)
    assert value.node is not None
    return value.node.op.reference(*[value_of(program, memory, v) for v in value.node.operands])


def run_graph(graph: Graph, inputs: list[Any], native: bool, options: CompileOptions = DEFAULT) -> list[Any]:
    """Fuse, lower, run."""
    return run_program(fuse(graph, options), inputs, native)
