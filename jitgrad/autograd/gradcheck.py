"""`gradcheck` and `gradgradcheck`: gradients beside finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, AutogradError, PreconditionError

from ..creation import tensor
from ..errors import located
from ..func.vmap import vmap
from ..functions.joining import stack
from ..random import rand
from ..tensor import Tensor
from . import api
from . import jacobian_tables as tables
from .function import Function
from .jacobian_tables import as_tuple


class GradcheckError(AutogradError):
    """A gradient is not what finite differences say."""


@dataclass(frozen=True)
class _Checks:
    """The options of a check."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    grad_dtypes: bool
    batched: bool
    forward: bool
    backward: bool
    fast: bool


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Whether the gradients of `func` at `inputs` are those that central differences with step `eps` give.

    The inputs that require gradients should be of double precision; complex ones, and complex results, are taken as
    pairs of real numbers. Beside values it checks that backward gives the same twice (within `nondet_tol`), zeros for
    zeros, and (`check_undefined_grad`) copes with results of which no gradient is asked; on request the gradients'
    dtypes, `vmap` of backward, and forward mode. `fast_mode` compares one random projection of each Jacobian instead
    of the whole. `masked` is there because PyTorch has it. Raises `GradcheckError`, or returns False with
    `raise_exception=False`.

    >>> import jitgrad as jg
    >>> x = jg.rand(3, dtype=jg.float64, requires_grad=True)
    >>> jg.autograd.gradcheck(lambda t: t.sin().sum(), x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise PreconditionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise PreconditionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise PreconditionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    checks = _Checks(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, check_forward_ad,
        check_backward_ad, fast_mode,
    )  # fmt: skip
    try:
        _check(func, as_tuple(inputs), checks)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(f: Callable[..., Any], inputs: tuple[Any, ...], checks: _Checks) -> None:
    wanted = _differentiated(inputs)
    given = [r for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)]
    outputs = [r for r in given if r.requires_grad]
    is_complex = any(t.dtype.is_complex for t in (*outputs, *(inputs[i] for i in wanted)))
    if checks.fast and not is_complex and outputs:
        _compare_projections(f, inputs, wanted, checks)
    else:
        _compare_tables(f, inputs, wanted, checks)
    if not checks.backward or not outputs:
        return
    outputs = _outputs(f, inputs)
    leaves = [inputs[i] for i in wanted]
    for k, out in enumerate(outputs):
        if checks.batched:
            _check_batched(out, leaves, k)
    _check_zeros(outputs, leaves)
    if checks.undefined:
        _check_undefined(f, inputs, leaves, len(outputs))


def _differentiated(inputs: Sequence[Any]) -> list[int]:
    """The numbers of the inputs that require gradients."""
    found = []
    for i, t in enumerate(inputs):
        if not isinstance(t, Tensor) or not t.requires_grad:
            continue
        found.append(i)
        if t.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if 0 not in t.shape and any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True)):  # type: ignore[attr-defined]
            raise located(
                AutogradError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                    "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                    ".contiguous on the input before passing it to gradcheck."
                )
            )
    if not found:
        raise located(
            ArgumentError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have "
                "requires_grad=True."
            )
        )
    return found


def _outputs(f: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    return [r for r in as_tuple(f(*inputs)) if isinstance(r, Tensor) and r.requires_grad]


def _compare_tables(f: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[int], checks: _Checks) -> None:
    numerical = [tables.numerical(f, inputs, inputs[i], checks.eps) for i in wanted]
    given = [r for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)]
    places = [k for k, r in enumerate(given) if r.requires_grad]
    if not places:
        if any(np.any(t) for by_result in numerical for t in by_result):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    if checks.backward:
        for n, k in enumerate(places):
            found = _by_backward(given[k], [inputs[i] for i in wanted], checks)
            for j, table in enumerate(found):
                _compare(table, numerical[j][k], n, j, given[k].dtype.is_complex, "", checks)
    if checks.forward:
        for j, i in enumerate(wanted):
            for k, table in enumerate(tables.by_forward(f, inputs, i)):
                is_complex = inputs[i].dtype.is_complex
                _compare(table, numerical[j][k], k, j, is_complex, "computed with forward mode ", checks)


def _by_backward(out: Any, leaves: Sequence[Any], checks: _Checks) -> list[tables.Table]:
    """The tables of one result, made twice.

    A tape's first backward pass is interpreted and later ones are compiled, which may round otherwise: one goes ahead.
    """
    api.grad(out, leaves, out.new_zeros(out.shape), retain_graph=True, allow_unused=True)
    runs = []
    for _ in range(2):
        found = [tables.empty_table(x, out) for x in leaves]
        for part, k, grads in tables.by_backward(out, leaves):
            for table, x, g in zip(found, leaves, grads, strict=True):
                if g is not None:
                    _check_type(g, x, checks)
                    table[:, :, part, k] = tables.numbers(g)
        runs.append(found)
    for first, second in zip(*runs, strict=True):
        if first.size and not np.all(np.abs(first - second) <= checks.nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient."
                f"The tolerance for nondeterminism was {checks.nondet_tol}."
            )
    return runs[0]


def _check_type(g: Any, x: Any, checks: _Checks) -> None:
    if checks.grad_dtypes and g.dtype is not x.dtype:
        raise GradcheckError("Gradient has dtype mismatch")
    if g.shape != x.shape:
        raise GradcheckError("Analytical gradient has incorrect size")


def _compare(
    found: tables.Table, numerical: tables.Table, output: int, input: int, says_part: bool, mode: str, checks: _Checks
) -> None:
    """Raise unless the tables agree, showing the part that doesn't as PyTorch does."""
    for part, name in reversed(list(enumerate(("real", "imaginary")[: found.shape[2]]))):
        a, n = (_matrix(t[:, :, part]) for t in (found, numerical))
        if not np.all(np.abs(a - n) <= checks.atol + checks.rtol * np.abs(n)):
            element = "inputs" if mode else "outputs"
            prefix = f"While considering the {name} part of complex {element} only, " if says_part else ""
            raise GradcheckError(
                f"{prefix}Jacobian {mode}mismatch for output {output} with respect to input {input},\n"
                f"numerical:{tensor(n)}\nanalytical:{tensor(a)}\n"
            )


def _matrix(table: Any) -> Any:
    """[elements of the input, elements of the output]; complex where the input is."""
    return table[0] + 1j * table[1] if len(table) == 2 else table[0]


def _compare_projections(f: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[int], checks: _Checks) -> None:
    """Fast mode: the number vᵀJu for random u and v, instead of J."""
    directions = [_direction(inputs[i]) for i in wanted]
    numerical = [tables.along(f, inputs, inputs[i], u, checks.eps) for i, u in zip(wanted, directions, strict=True)]
    given = [r for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)]
    places = [k for k, r in enumerate(given) if r.requires_grad]
    for n, k in enumerate(places):
        v = _direction(given[k])
        grads = api.grad(given[k], [inputs[i] for i in wanted], v, retain_graph=True, allow_unused=True)
        for j, (g, u) in enumerate(zip(grads, directions, strict=True)):
            analytical = 0.0 if g is None else float((tables.numbers(g) * tables.numbers(u)).sum())
            number = float((numerical[j][k] * tables.numbers(v)).sum())
            atol = checks.atol * float(u.sum()) * float(v.sum())
            if not abs(analytical - number) <= atol + checks.rtol * abs(number):
                raise GradcheckError(
                    f"Jacobian mismatch for output {n} with respect to input {j},\nnumerical:{number}\n"
                    f"analytical:{analytical}\n{_in_full(f, inputs, wanted, checks)}"
                )


def _direction(x: Any) -> Any:
    """A random direction of length 1 without negative elements."""
    v: Any = rand(*x.shape, dtype=dtypes.float64, device=x.device)
    return (v / v.square().sum().sqrt().clamp(min=1e-300)).to(x.dtype)


def _in_full(f: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[int], checks: _Checks) -> str:
    """What slow mode says, for the message of fast mode."""
    try:
        _compare_tables(f, inputs, wanted, checks)
    except GradcheckError as error:
        return f"\nThe above quantities are random projections (fast mode). In slow mode:\n\n{error}"
    return "\nFast gradcheck failed but element-wise differences are small: slow mode would have passed."


def _check_batched(out: Any, leaves: Sequence[Any], number: int) -> None:
    """`vmap` of backward gives what backward gives one after the other."""

    def pulled(v: Any) -> tuple[Any, ...]:
        grads = api.grad(out, leaves, v, retain_graph=True, allow_unused=True)
        return tuple([x.new_zeros(x.shape) if g is None else g for g, x in zip(grads, leaves, strict=True)])

    seeds = [_cotangent(out) for _ in range(2)]
    expected = [stack(column) for column in zip(*[pulled(v) for v in seeds], strict=True)]
    try:
        found = vmap(pulled)(stack(seeds))
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}") from error
    for j, (got, want) in enumerate(zip(found, expected, strict=True)):
        if not got.allclose(want):
            raise GradcheckError(
                f"For output {number} and input {j}, vmap of autograd.grad gives\n{got}\nand one after the other\n"
                f"{want}"
            )


def _check_zeros(outputs: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Gradients are zero where those of the results are, and of the inputs' types."""
    zeros = [o.new_zeros(o.shape) for o in outputs]
    for g, x in zip(api.grad(outputs, leaves, zeros, allow_unused=True), leaves, strict=True):
        if g is None:
            continue
        if not _is_zero(g):
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype is not x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.device != x.device:
            raise GradcheckError("grad is incorrect device")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


def _is_zero(g: Any) -> bool:
    return bool((g == 0).all())


class _NoGradient(Function):
    """The tensor; backward gives none."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """The tensor."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        """None."""
        return None


def _check_undefined(f: Callable[..., Any], inputs: Sequence[Any], leaves: Sequence[Any], count: int) -> None:
    """Backward copes with results without a gradient: all of them, and each in turn."""
    for which in [range(count), *([k] for k in range(count) if count > 1)]:
        outputs = [_NoGradient.apply(o) if k in which else o for k, o in enumerate(_outputs(f, inputs))]
        try:
            grads = api.grad(outputs, leaves, [o.new_zeros(o.shape) for o in outputs], allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError("Expected backward function to handle undefined output grads.") from error
        if any(g is not None and not _is_zero(g) for g in grads):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """`gradcheck` of the gradients of `func`, with respect to `inputs` and to the results' cotangents `grad_outputs`.

    Cotangents are drawn at random unless given.

    >>> import jitgrad as jg
    >>> x = jg.rand(3, dtype=jg.float64, requires_grad=True)
    >>> jg.autograd.gradgradcheck(lambda t: t.sin().sum(), x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise PreconditionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise PreconditionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise PreconditionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    given = as_tuple(inputs)
    if grad_outputs is None:
        drawn = [_cotangent(o, gen_non_contig_grad_outputs) for o in _outputs(func, given)]
        grad_outputs = tuple([v.requires_grad_() for v in drawn])
    cotangents = as_tuple(grad_outputs)
    return gradcheck(
        _gradients_of(func, given, cotangents), given + cotangents, eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
        masked=masked,
    )  # fmt: skip


def _cotangent(o: Any, noncontiguous: bool = False) -> Any:
    """Random numbers between -1 and 1 like those of a result."""
    shape = (*o.shape, 2) if noncontiguous else tuple(o.shape)
    drawn: Any = rand(*shape, dtype=o.dtype, device=o.device)
    made = drawn * 2 - 1
    return made[..., 1] if noncontiguous else made


def _gradients_of(func: Callable[..., Any], inputs: Sequence[Any], cotangents: Sequence[Any]) -> Callable[..., Any]:
    """The function that gives the gradients of `func`, of its inputs followed by its results' cotangents."""
    needs = [isinstance(t, Tensor) and t.requires_grad for t in (*inputs, *cotangents)]

    def gradients(*args: Any) -> tuple[Any, ...]:
        args = tuple([_requiring(t) if need else t for t, need in zip(args, needs, strict=True)])
        wanted = [t for t, need in zip(args[: len(inputs)], needs, strict=False) if need]
        outputs = _outputs(func, args[: len(inputs)])
        grads = api.grad(outputs, wanted, args[len(inputs) :], create_graph=True, allow_unused=True)
        return tuple([g for g in grads if g is not None])

    return gradients


def _requiring(t: Any) -> Any:
    return t if t.requires_grad else t.requires_grad_()
