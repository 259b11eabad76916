"""Products with Jacobians and Hessians, and these as a whole, as in `torch.autograd.functional`.

Functions take a tensor or a tuple of tensors and give tensors; results are without history unless `create_graph`. The
transforms of `jitgrad.func` do the same for functions, and compose; two of them stand here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, AutogradError

from ..errors import located
from ..func.axes import moved_axis
from ..func.forward import jvp as forward_product
from ..func.gradients import begun, grad, gradients, value_and_grad, without_history
from ..func.jacobians import blocks_of, unit_vectors
from ..func.vmap import vmap
from ..functions.registry import FUNCTIONS
from ..tensor import Tensor

Inputs = Tensor | tuple[Tensor, ...]


def vjp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The results of `func`, and the product of the cotangents `v` with its Jacobian at `inputs`.

    `v` may be left out for a result of one element. With `strict`, results or inputs without influence are errors.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.vjp(lambda x: x * x, jg.tensor([1.0, 2.0]), jg.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    given, single = _tuple(inputs, "inputs", "vjp")
    with begun(given) as (fresh, _, _):
        outs, one = _outputs(func, fresh, "vjp", strict)
        seeds = _vectors(v, outs, "vjp")
        grads = _products(outs, fresh, seeds, create_graph, "vjp", strict)
    return _given(outs, one, create_graph), _given(grads, single, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The results of `func`, and the product of its Jacobian at `inputs` with the tangents `v`.

    `v` may be left out for an input of one element.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.jvp(lambda x: x * x, jg.tensor([1.0, 2.0]), jg.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    given, _ = _tuple(inputs, "inputs", "jvp")
    tangents = _vectors(v, given, "jvp", of_inputs=True)
    results, products = forward_product(_as_function_of(func, "jvp", strict), given, tuple(tangents))
    one = isinstance(results, Tensor)
    outs, moved = ((results,), (products,)) if one else (results, products)
    return _given(outs, one, create_graph), _given(moved, one, create_graph)


def jacobian(
    func: Callable[..., Any], inputs: Inputs, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian, of shape `result.shape + input.shape`: nested tuples for several results or inputs.

    Rows are computed one after the other, or with `vectorize` at once; or columns, with `strategy="forward-mode"`.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.jacobian(lambda x: x * x, jg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise located(
            ArgumentError(
                f'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: got strategy={strategy!r}'
            )
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    given, single = _tuple(inputs, "inputs", "jacobian")
    with begun(given) as (fresh, _, _):
        outs, one = _outputs(func, fresh, "jacobian", strict)

        def row(*seeds: Tensor) -> tuple[Tensor, ...]:
            return tuple(_products(outs, fresh, seeds, create_graph, "jacobian", strict, retain=True))

        units = unit_vectors(outs)
        if vectorize:
            stacked: Sequence[Any] = vmap(row)(*units)
        else:
            rows = [row(*[u[i] for u in units]) for i in range(units[0].shape[0])]  # type: ignore[index]
            stacked = [FUNCTIONS["stack"](list(column)) if column else None for column in zip(*rows, strict=True)]
            stacked = stacked or [x.new_zeros((0, *x.shape)) for x in given]  # type: ignore[attr-defined]
        blocks = blocks_of(stacked, outs, 0)
    found = [_given(block, single, create_graph) for block in blocks]
    return found[0] if one else tuple(found)


def _forward_jacobian(func: Callable[..., Any], inputs: Inputs, create: bool, strict: bool, vectorize: bool) -> Any:
    """Column by column."""
    if strict:
        raise located(AutogradError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` '
                                    "are not supported together (yet). Please either set `strict=False` or "
                                    '`strategy="reverse-mode"`.'))  # fmt: skip
    if not vectorize:
        raise located(ArgumentError("Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
                                    "implemented for `vectorize=True`."))  # fmt: skip
    given, single = _tuple(inputs, "inputs", "jacobian")
    counted: list[bool] = []

    def push(*tangents: Tensor) -> tuple[Tensor, ...]:
        _, products = forward_product(_as_function_of(func, "jacobian", False), given, tangents)
        counted.append(isinstance(products, Tensor))
        return (products,) if isinstance(products, Tensor) else tuple(products)

    columns = vmap(push)(*unit_vectors(given))
    moved = [moved_axis(t, 0, t.ndim - 1) for t in columns]
    blocks = list(zip(*blocks_of(moved, given, -1), strict=True))
    found = [_given(block, single, create) for block in blocks]
    return found[0] if counted[0] else tuple(found)


def hessian(
    func: Callable[..., Any], inputs: Inputs, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a function whose result is one element.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.hessian(lambda x: (x ** 3).sum(), jg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _, single = _tuple(inputs, "inputs", "hessian")

    def gradient(*args: Tensor) -> Any:
        with begun(args) as (fresh, _, _):
            grads = _products([_scalar(func(*fresh), "hessian")], fresh, None, True, "hessian", strict)
        return grads[0] if single else tuple(grads)

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result of `func`, one element, and the product of `v` with its Hessian at `inputs`.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.vhp(lambda x: (x ** 3).sum(), jg.tensor([1.0, 2.0]), jg.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    given, single = _tuple(inputs, "inputs", "vhp")
    with begun(given) as (fresh, _, _):
        value = _scalar(func(*fresh), "vhp")
        grads = _products([value], fresh, None, True, "vhp", strict, retain=True)
        seeds = _vectors(v, given, "vhp", of_inputs=True)
        products = _products(grads, fresh, seeds, create_graph, "vhp", strict)
    return _given([value], True, create_graph), _given(products, single, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result of `func`, one element, and the product of its Hessian at `inputs` with `v`: forward over reverse.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.hvp(lambda x: (x ** 3).sum(), jg.tensor([1.0, 2.0]), jg.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)  # of real functions the Hessian is symmetric


# ------------------------------------------------------------------------------------------------ arguments


def _tuple(x: Any, what: str, name: str) -> tuple[tuple[Tensor, ...], bool]:
    """A tensor or tensors as a tuple, and whether it was one tensor."""
    single = not isinstance(x, (tuple, list))
    found = (x,) if single else tuple(x)
    for i, t in enumerate(found):
        if not isinstance(t, Tensor):
            where = "" if single else f"value at index {i} of the "
            raise located(
                ArgumentTypeError(
                    f"The {where}{what} given to {name} must be either a Tensor or a tuple of Tensors but has type "
                    f"{type(t)}"
                )
            )
    return found, single


def _outputs(
    func: Callable[..., Any], fresh: Sequence[Tensor], name: str, strict: bool
) -> tuple[tuple[Tensor, ...], bool]:
    outs, one = _tuple(func(*fresh), "outputs of the user-provided function", name)
    for i, t in enumerate(outs):
        if strict and not t._requires_grad:
            raise located(
                AutogradError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    f"computed in a differentiable manner from the input when running in strict mode."
                )
            )
    return outs, one


def _as_function_of(func: Callable[..., Any], name: str, strict: bool) -> Callable[..., Any]:
    """`func` with its results checked."""

    def call(*args: Tensor) -> Any:
        out = func(*args)
        _tuple(out, "outputs of the user-provided function", name)
        return tuple(out) if isinstance(out, list) else out

    return call


def _scalar(out: Any, name: str) -> Tensor:
    """The only result, of one element."""
    outs, one = _tuple(out, "outputs of the user-provided function", name)
    if not one and len(outs) != 1:
        raise located(AutogradError(f"The function given to {name} should return a single Tensor"))
    if outs[0].type_.numel != 1:
        raise located(
            AutogradError(f"The Tensor returned by the function given to {name} should contain a single element")
        )
    return outs[0].reshape(())  # type: ignore[attr-defined, no-any-return]


def _vectors(v: Any, like: Sequence[Tensor], name: str, of_inputs: bool = False) -> list[Tensor]:
    """The vectors that a product is taken with, checked."""
    if v is None:
        if len(like) != 1 or like[0].type_.numel != 1:
            what = (
                "the input" if of_inputs else "the user-provided function returns a single Tensor with a single element"
            )
            raise located(
                AutogradError(
                    f"The vector v can only be None if {what}{' is a single Tensor with one element' * of_inputs}."
                )
            )
        return [like[0].new_ones(tuple(like[0].shape))]  # type: ignore[attr-defined]
    found, _ = _tuple(v, "v", name)
    if len(found) != len(like):
        raise located(AutogradError(f"v is a tuple of invalid length: should be {len(like)} but got {len(found)}."))
    for i, (x, t) in enumerate(zip(found, like, strict=True)):
        if x.shape != t.shape:
            raise located(
                AutogradError(f"v has invalid size at entry {i}: should be {list(t.shape)} but got {list(x.shape)}.")
            )
    return list(found)


def _products(
    outs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Tensor] | None, create: bool, name: str,
    strict: bool, retain: bool | None = None,
) -> list[Any]:  # fmt: skip
    """Cotangents of the inputs; with `strict`, each of them must have an influence."""
    found = gradients(outs, inputs, seeds, create, retain, materialize=not strict)
    for i, g in enumerate(found):
        if g is None:
            raise located(
                AutogradError(
                    f"The output of the user-provided function is independent of input {i}. This is not allowed in "
                    f"strict mode of {name}."
                )
            )
    return found


def _given(tensors: Sequence[Any], single: bool, create: bool) -> Any:
    out = tuple(tensors) if create else tuple([without_history(t) for t in tensors])
    return out[0] if single else out


__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vhp", "vjp"]
