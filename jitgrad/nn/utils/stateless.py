"""Calling a module with other tensors in the place of its parameters and buffers, which stay as they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ...epoch import changed_for_a_while
from ...errors import located
from ...mode import local
from ...tensor import Tensor
from ..module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = None,
    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """The older place of `func.functional_call`: call `module` with these tensors as parameters and buffers."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated in favor of `func.functional_call`.",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


def call_with(
    module: Module, tensors: Mapping[str, Tensor], args: Any = None, kwargs: Mapping[str, Any] | None = None,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call `module(*args, **kwargs)` with `tensors`, by dotted name, as its parameters and buffers.

    A lone argument need not be in a tuple. With `tie_weights`, what the module has under two names is replaced under
    both. With `strict`, all names must be there, and no others.
    """
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, tensors, tie_weights, strict):
        return module._run(*given, **(kwargs or {}))  # what was compiled for its own parameters is not for others


@contextmanager
def swapped(
    module: Module, tensors: Mapping[str, Tensor], tie_weights: bool = True, strict: bool = False
) -> Iterator[None]:
    """Inside, the module has `tensors` as its parameters and buffers."""
    named = _named(module)
    _check_names(module, named, tensors, strict)
    replaced = _untied(named, tensors) if tie_weights else dict(tensors)
    owners = {name: module.get_submodule(name.rpartition(".")[0]) for name in replaced}
    # A trace goes by what is read: for it nothing has changed.
    counted = changed_for_a_while(owners.values()) if local.mode.tracer is None else nullcontext()
    before: list[tuple[Any, str, Any]] = []
    with counted:
        try:
            for name, owner in owners.items():
                last = name.rpartition(".")[2]
                for table in (owner._parameters, owner._buffers):
                    if last in table:
                        before.append((table, last, table[last]))
                        dict.__setitem__(table, last, replaced[name])
            yield
        finally:
            for table, last, tensor in reversed(before):
                dict.__setitem__(table, last, tensor)


def _named(module: Module) -> dict[str, Tensor]:
    """All parameters and buffers, under all their names."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def _check_names(module: Module, named: Mapping[str, Tensor], tensors: Mapping[str, Tensor], strict: bool) -> None:
    if not strict:
        return
    problems = [
        f"{what} key(s): {', '.join(map(repr, keys))}."
        for what, keys in (
            ("Unexpected", [name for name in tensors if name not in named]),
            ("Missing", [name for name in named if name not in tensors]),
        )
        if keys
    ]
    if problems:
        listed = "\n\t".join(problems)
        raise located(OperationError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t{listed}"))


def _untied(named: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`tensors`, also under the other names of what they take the place of."""
    names: dict[int, list[str]] = {}
    for name, tensor in named.items():
        names.setdefault(id(tensor), []).append(name)
    result = dict(tensors)
    for tied in names.values():
        values = {id(tensors[name]): tensors[name] for name in tied if name in tensors}
        if len(values) > 1:
            raise located(
                ArgumentError(
                    f"functional_call got multiple values for keys {sorted(tied)}, which are tied. Consider using "
                    "tie_weights=False"
                )
            )
        for value in values.values():
            result.update(dict.fromkeys(tied, value))
    return result
