"""The recorded graph, as `torch.autograd.graph` shows it: hooks on what nodes save, edges, write counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from jitgrad.ir.errors import ArgumentTypeError, AutogradError

from ..aliasing import storage_of
from ..errors import located
from ..mode import local
from ..tape import AccumulateGrad, TapeNode
from ..tensor import Tensor
from .multi_grad import register_multi_grad_hook as register_multi_grad_hook
from .saved import SavedHooks

Node = TapeNode


class saved_tensors_hooks:
    """Inside, what operations save for their gradients goes through `pack_hook(tensor)`, and comes back when needed.

    `unpack_hook` gets what `pack_hook` returned and gives a tensor of the same shape, dtype and device. Blocks nest;
    the innermost one counts. Backward runs node by node where something is packed.

    >>> import jitgrad as jg
    >>> x = jg.tensor([1.0, 2.0], requires_grad=True)
    >>> with jg.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), jg.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._before: list[SavedHooks | None] = []

    def __enter__(self) -> None:
        mode = local.mode
        if mode.saved_hooks_refused is not None:
            raise located(AutogradError(mode.saved_hooks_refused))
        self._before.append(mode.watch(SavedHooks(self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exc: object) -> None:
        local.mode.watch(self._before.pop())


class save_on_cpu(saved_tensors_hooks):
    """Inside, what operations save is kept in host memory, and moved back to its device when a gradient needs it."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))  # type: ignore[attr-defined]


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside, what operations save is copied, so that writing to the tensors later does no harm.

    >>> import jitgrad as jg
    >>> x = jg.tensor([1.0, 2.0], requires_grad=True)
    >>> with jg.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.exp()
    ...     z = (y * y).sum()
    ...     _ = y.detach().zero_()
    >>> z.backward()
    >>> bool((x.grad > 10).all())
    True
    """

    def __init__(self) -> None:
        super().__init__(lambda t: t.detach().clone(), lambda t: t)  # type: ignore[attr-defined]


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, `saved_tensors_hooks` raises `RuntimeError` with this message."""
    mode = local.mode
    before = mode.saved_hooks_refused
    mode.saved_hooks_refused = error_message
    try:
        yield
    finally:
        mode.saved_hooks_refused = before


class GradientEdge(NamedTuple):
    """Where a tensor stands in the graph: the result `output_nr` of `node`; of a leaf, the node that accumulates."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that gradients of `tensor` flow along.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> jg.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise located(
            AutogradError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
        )
    node = tensor.grad_fn
    return GradientEdge(AccumulateGrad(tensor) if node is None else node, tensor._index)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that tensors were written in place by something that jitgrad does not see.

    >>> import jitgrad as jg
    >>> x = jg.ones(2)
    >>> jg.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not isinstance(t, Tensor):
            raise located(ArgumentTypeError(f"increment_version expects a Tensor, not {type(t).__name__}"))
        storage_of(t)._version += 1
