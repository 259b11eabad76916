"""`grad`, `grad_and_value`, `value_and_grad` and `vjp`: reverse mode, on the tape.

A transform starts from tensors that are the arguments and at which a history begins (`differentiable`). What lies
behind them, and what else the function reaches, has its own history; if there is any, the gradient is recorded too,
so that whoever is around can differentiate it again: another transform, or `backward()`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.ir.errors import ArgumentError, AutogradError
from jitgrad.ir.ops.shape import Reshape

from .. import pytree
from ..aliasing import alias, storage_of, view
from ..autograd import api
from ..dispatch import edge, lift
from ..errors import located
from ..levels import LevelData
from ..mode import local
from ..tape import TapeNode
from ..tensor import Tensor, wrap
from .compiled import of_compiled

Argnums = int | Sequence[int]


@contextmanager
def begun(trees: Any) -> Iterator[tuple[Any, list[Tensor], bool]]:
    """The trees with histories beginning at their tensors, those tensors, and whether recording is on outside.

    Inside, it is on.
    """
    mode = local.mode
    recording, outer = mode.grad, mode.outer_grad
    inside, fresh = begin(trees)
    nodes = {t._node for t in fresh}
    mode.outer_grad = recording and outer
    mode.grad = True
    mode.transforms += 1
    mode.begun |= nodes
    try:
        yield inside, fresh, recording
    finally:
        mode.grad, mode.outer_grad = recording, outer
        mode.transforms -= 1
        mode.begun -= nodes


def differentiable(x: Tensor) -> Tensor:
    """`x` as a tensor at which a history begins; behind it is that of `x`, if recording is on around the transform."""
    if not x.dtype.is_differentiable:
        raise located(
            AutogradError(f"only Tensors of floating point and complex dtype can require gradients, not {x.dtype.name}")
        )
    mode = local.mode
    source = lift(mode.levels[-1], x) if mode.levels else x
    op = Reshape(tuple(x.shape))
    made = view(op, source)
    if made._node is None:
        made._node = TapeNode(op, (None,), (None, None), (None, None), None, (x.type_,))
        made._index, made._requires_grad = 0, True
    return made


def begin(tree: Any) -> tuple[Any, list[Tensor]]:
    """The tree with histories beginning at its tensors, and those tensors."""
    leaves, structure = pytree.flatten(tree)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise located(ArgumentError(f"Thing passed to transform API must be Tensor, got {type(x)}"))
    fresh = [differentiable(x) for x in leaves]
    return pytree.unflatten(structure, fresh), fresh


def reaches_beyond(outputs: Sequence[Tensor], fresh: Sequence[Tensor]) -> bool:
    """Whether the history of `outputs` goes on behind `fresh`, or reaches anything else that has one."""
    active = local.mode.begun
    own = {t._node for t in fresh}
    seen: set[Any] = set()
    stack: list[Any] = [edge(t) for t in outputs]
    while stack:
        e = stack.pop()
        node = e[0] if e.__class__ is tuple else e
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Tensor) or (node in active and node not in own):
            return True
        stack += node.edges
    return False


def without_history(x: Any) -> Any:
    """`x` as a tensor that this level's tape knows nothing of, of the same memory; what is not a tensor as it is."""
    if not isinstance(x, Tensor) or not x._requires_grad:
        return x
    if not isinstance(x._data, LevelData):
        return alias(x)
    made = wrap(x._data)
    made._storage = storage_of(x)
    return made


def _tuple(argnums: Argnums) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def selected(argnums: Argnums, args: Sequence[Any]) -> tuple[int, ...]:
    """Argument numbers, from 0 on."""
    if not isinstance(argnums, (int, tuple)) or not all(isinstance(n, int) for n in _tuple(argnums)):
        raise located(AutogradError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}"))
    nums = _tuple(argnums)
    if not nums:
        raise located(AutogradError("argnums must be non-empty"))
    for n in nums:
        if not -len(args) <= n < len(args):
            raise located(AutogradError(f"Got argnum={n}, but only {len(args)} positional inputs"))
    found = tuple([n % len(args) for n in nums])
    if len(set(found)) < len(found):
        raise located(AutogradError(f"argnums elements must be unique, got {argnums}"))
    return found


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function giving the gradient of `func`, and what `func` gives; see `grad`.

    >>> import jitgrad as jg
    >>> jg.func.grad_and_value(lambda x: (x * x).sum())(jg.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """
    again = functools.partial(grad_and_value, argnums=argnums, has_aux=has_aux)
    compiled = of_compiled(func, again, "grad_and_value", argnums, has_aux)
    if compiled is not None:
        return compiled

    @functools.wraps(func, updated=())
    def transformed(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        nums = selected(argnums, args)
        chosen = tuple([args[n] for n in nums])
        with begun(chosen) as (trees, fresh, recording):
            call = list(args)
            for n, tree in zip(nums, trees, strict=True):
                call[n] = tree
            out = func(*call, **kwargs)
            if has_aux and not (isinstance(out, tuple) and len(out) == 2):
                raise located(
                    AutogradError(
                        "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux "
                        "is True"
                    )
                )
            value, aux = out if has_aux else (out, None)
            _check_scalar(value)
            beyond = recording and reaches_beyond([value], fresh)
            grads = gradients([value], fresh, None, beyond)
            leaves, shape = pytree.flatten(aux)
            kept = [x if recording and _beyond(x, fresh) else without_history(x) for x in leaves]
        structure = pytree.flatten(chosen[0] if isinstance(argnums, int) else chosen)[1]
        result = value if beyond else without_history(value)
        return pytree.unflatten(structure, grads), (result, pytree.unflatten(shape, kept)) if has_aux else result

    return transformed


def _beyond(x: Any, fresh: Sequence[Tensor]) -> bool:
    return isinstance(x, Tensor) and x._requires_grad and reaches_beyond([x], fresh)


def _check_scalar(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise located(
            AutogradError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
        )
    if value.ndim:
        raise located(
            AutogradError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{value.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        )


def gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Tensor] | None, create: bool,
    retain: bool | None = None, materialize: bool = True,
) -> list[Any]:  # fmt: skip
    """The gradients of those outputs that have a history; zeros (or None, unless `materialize`) where none flows."""
    known = [i for i, t in enumerate(outputs) if t._requires_grad]
    if not known or not inputs:
        return [x.new_zeros(x.shape) if materialize else None for x in inputs]  # type: ignore[attr-defined]
    given = None if seeds is None else [seeds[i] for i in known]
    return list(
        api.grad(
            [outputs[i] for i in known], inputs, given, retain_graph=retain, create_graph=create, allow_unused=True,
            materialize_grads=materialize,
        )
    )  # fmt: skip


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function giving the gradient of `func`, which gives a 0-d tensor, for its arguments `argnums`.

    Arguments may be containers of tensors; gradients have the same structure. With `has_aux`, `func` gives a pair, the
    second of which is handed through. Transforms nest, and compose with `vmap`, `jvp` and `jg.compile` in any order.

    Raises `RuntimeError` if the result is no 0-d tensor, or an argument is not differentiable.

    >>> import jitgrad as jg
    >>> f = jg.func.grad(lambda x: x ** 3)
    >>> f(jg.tensor(2.0)), jg.func.grad(f)(jg.tensor(2.0))
    (tensor(12.), tensor(12.))
    """
    compiled = of_compiled(func, functools.partial(grad, argnums=argnums, has_aux=has_aux), "grad", argnums, has_aux)
    if compiled is not None:
        return compiled
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def transformed(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return transformed


def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """`grad_and_value` with its results in the other order, as in JAX.

    >>> import jitgrad as jg
    >>> jg.func.value_and_grad(lambda x: (x * x).sum())(jg.tensor([1.0, 2.0]))
    (tensor(5.), tensor([2., 4.]))
    """
    again = functools.partial(value_and_grad, argnums=argnums, has_aux=has_aux)
    compiled = of_compiled(func, again, "value_and_grad", argnums, has_aux)
    if compiled is not None:
        return compiled
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def transformed(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        grads, value = both(*args, **kwargs)
        return value, grads

    return transformed


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """What `func` gives for `primals`, and a function from cotangents of that to cotangents of the primals.

    With `has_aux`, `func` gives a pair, and the second is the third result. The function gives one tree for one primal,
    else a tuple of them; it may be called often, and under `vmap`.

    >>> import jitgrad as jg
    >>> value, pull = jg.func.vjp(lambda x: x * x, jg.tensor([1.0, 2.0]))
    >>> pull(jg.ones(2))
    (tensor([2., 4.]),)
    """
    with begun(primals) as (trees, fresh, recording):
        aux: Any = None
        out = func(*trees)
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise located(
                    AutogradError(
                        "vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True"
                    )
                )
            out, aux = out
        results, shape = pytree.flatten(out)
        check_tensors("vjp(f, *primals)", results)
        beyond = recording and reaches_beyond([t for t in results if t._requires_grad], fresh)
        leaves, aux_shape = pytree.flatten(aux)
        kept = [x if recording and _beyond(x, fresh) else without_history(x) for x in leaves]
    structure = pytree.flatten(primals)[1]

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, given = pytree.flatten(cotangents)
        if given != shape:
            raise located(
                AutogradError(
                    "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                    f"function. cotangents: {given}, primal output: {shape}"
                )
            )
        create = local.mode.grad if create_graph is None else create_graph
        again = create and (beyond or any(s._requires_grad for s in seeds))
        grads = gradients(results, fresh, seeds, again, retain_graph)
        return pytree.unflatten(structure, grads)

    shown = [t if beyond else without_history(t) for t in results]
    value = pytree.unflatten(shape, shown)
    if not has_aux:
        return value, pull
    return value, pull, pytree.unflatten(aux_shape, kept)


def check_tensors(what: str, results: Sequence[Any]) -> None:
    """Raise unless all of these are tensors."""
    for x in results:
        if not isinstance(x, Tensor):
            raise located(
                AutogradError(f"{what}: expected f(*primals) to return only tensors, got unsupported type {type(x)}")
            )
