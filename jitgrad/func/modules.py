"""Modules as functions of their parameters: `functional_call`, `stack_module_state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ..errors import located
from ..functions.registry import FUNCTIONS
from ..nn.module import Module
from ..nn.utils.stateless import call_with
from ..tensor import Tensor

Tensors = Mapping[str, Tensor]


def functional_call(
    module: Module, parameter_and_buffer_dicts: Tensors | Sequence[Tensors], args: Any = None,
    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call `module(*args, **kwargs)` with these tensors, by dotted name, in the place of its parameters and buffers.

    What is not named stays the module's. In-place changes of a buffer change the tensor given. A lone argument need not
    be in a tuple. With `tie_weights`, what the module has under two names is replaced under both; with `strict`, all
    names must be given, and no others. Raises `ValueError` for a name in two of several dicts.

    >>> import jitgrad as jg
    >>> layer = jg.nn.Linear(2, 1, bias=False)
    >>> jg.func.functional_call(layer, {"weight": jg.tensor([[1.0, 2.0]])}, (jg.ones(2),)).tolist()
    [3.0]
    """
    given = parameter_and_buffer_dicts
    if not isinstance(given, Mapping):
        if not isinstance(given, Sequence) or not all(isinstance(d, Mapping) for d in given):
            raise located(
                ArgumentError(
                    "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                    f"{type(parameter_and_buffer_dicts)}"
                )
            )
        names = [name for d in given for name in d]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise located(
                ArgumentError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            )
        given = {name: t for d in given for name, t in d.items()}
    return call_with(module, given, args, kwargs, tie_weights, strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of models of one kind, by name, stacked along a new dim 0: an ensemble for `vmap`.

    Parameters are leaves that require gradients where those of the models do. Raises `RuntimeError` without a model,
    for models of several classes, or some in training and some not.

    >>> import jitgrad as jg
    >>> models = [jg.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = jg.func.stack_module_state(models)
    >>> base = jg.nn.Linear(2, 3)
    >>> def call(p, b, x):
    ...     return jg.func.functional_call(base, (p, b), (x,))
    >>> jg.vmap(call, in_dims=(0, 0, None))(params, buffers, jg.ones(5, 2)).shape
    jitgrad.Size([4, 5, 3])
    """
    if not models:
        raise located(OperationError("stack_module_state: Expected at least one model, got 0."))
    if len({m.training for m in models}) > 1:
        raise located(OperationError("stack_module_state: Expected all models to have the same training/eval mode."))
    if len({type(m) for m in models}) > 1:
        raise located(OperationError("stack_module_state: Expected all models to be of the same class."))
    params = {
        name: _stacked([dict(m.named_parameters())[name] for m in models]) for name, _ in models[0].named_parameters()
    }
    buffers = {name: _stacked([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return params, buffers


def _stacked(tensors: Sequence[Any]) -> Any:
    flags = {t.requires_grad for t in tensors}
    if len(flags) > 1:
        raise located(OperationError("Expected parameters from each model to have the same .requires_grad"))
    made = FUNCTIONS["stack"]([t.detach() for t in tensors])
    return made.requires_grad_() if True in flags else made
