"""Parametrizations: a parameter or buffer of a module as a function of other tensors, which are trained instead."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ...autograd.grad_mode import no_grad
from ...errors import located
from ...mode import local
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter
from .computed import base_of, set_computed

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip


class _Cache(threading.local):
    """Values that `cached` keeps in this thread: for each use of it, the trace it is in and values by their lists."""

    def __init__(self) -> None:
        self.frames: list[tuple[Any, dict[ParametrizationList, Tensor]]] = []

    def values(self) -> dict[ParametrizationList, Tensor] | None:
        """The table that is in force: the outermost of this trace, because tensors don't go from one into another."""
        tracer = local.mode.tracer
        return next((values for inside, values in self.frames if inside is tracer), None)


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Inside, a parametrized tensor is computed the first time it is read, and then kept.

    >>> import jitgrad as jg
    >>> from jitgrad.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(jg.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    frame: tuple[Any, dict[ParametrizationList, Tensor]] = (local.mode.tracer, {})
    _cache.frames.append(frame)
    try:
        yield
    finally:
        _cache.frames.pop()


class _Parametrized:
    """How a parametrized tensor is read and set."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, module: Any) -> Any:
        """What the parametrizations make of the originals."""
        parametrizations = module.parametrizations[self.name]
        values = _cache.values() if _cache.frames else None
        if values is None:
            return parametrizations()
        if parametrizations not in values:
            values[parametrizations] = parametrizations()
        return values[parametrizations]

    def write(self, module: Any, value: Any) -> None:
        """Set the originals so that this comes out."""
        module.parametrizations[self.name].right_inverse(value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, and the tensors it is computed from.

    Those are `original`, or if the first one's `right_inverse` gives several, `original0`, `original1` and so on.
    `register_parametrization` makes it.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise located(ArgumentError("ParametrizationList requires one or more modules."))
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(self):  # type: ignore[call-overload]
                new = _inverse_or_same(module, new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise located(ArgumentError(f"{_SEVERAL} Got {type(new).__name__}"))
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            _check_result(self(), dtype, shape)

    def _keep_one(self, original: Any, new: Any) -> None:
        """The same object goes on as `original`, so that optimizers need not be told."""
        for what in ("dtype", "device"):
            before, after = getattr(original, what), getattr(new, what)
            if before != after:
                raise located(
                    ArgumentError(
                        f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                        f"original.{what}: {before}\nright_inverse(original).{what}: {after}"
                    )
                )
        _set(original, new)
        _register(self, "original", original)

    def _keep_several(self, original: Any, new: Sequence[Any]) -> None:
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise located(
                    ArgumentError(f"{_SEVERAL} Got element {i} of the sequence with type {type(part).__name__}.")
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)

    def right_inverse(self, value: Any) -> None:
        """Set the originals to what the `right_inverse` methods make of `value`, the last one first."""
        with no_grad():
            for module in reversed(self):  # type: ignore[call-overload]
                if not hasattr(module, "right_inverse"):
                    raise located(
                        OperationError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                    )
                value = module.right_inverse(value)
        if self.is_tensor and not isinstance(value, Tensor):
            raise located(ArgumentError(f"`right_inverse` should return a tensor. Got {type(value).__name__}"))
        if not self.is_tensor and not isinstance(value, Sequence):
            raise located(
                ArgumentError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            )
        given = [value] if self.is_tensor else list(value)
        if len(given) != self.ntensors:
            raise located(
                ArgumentError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(given)}."
                )
            )
        for name, part in zip(self._names(), given, strict=True):
            original = getattr(self, name)
            if not isinstance(part, Tensor) or part.dtype != original.dtype:
                what = f"dtype {part.dtype}" if isinstance(part, Tensor) else f"type {type(part).__name__}"
                raise located(
                    ArgumentError(
                        f"The tensor returned by `right_inverse` for `{name}` has {what} while `{name}` has dtype "
                        f"{original.dtype}"
                    )
                )
        for name, part in zip(self._names(), given, strict=True):
            _set(getattr(self, name), part)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Any:
        """The parametrized tensor."""
        first, *others = self._modules.values()
        x = first(*[getattr(self, name) for name in self._names()])
        for module in others:
            x = module(x)
        return x


_SEVERAL = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)."


def _inverse_or_same(module: Any, value: Any) -> Any:
    """What `right_inverse` makes of the value; the value itself if there is none."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _set(original: Any, new: Any) -> None:
    """Let the original have this memory, unless it has it already."""
    if new is not original:
        with no_grad():
            original.set_(new)


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_result(
    result: Any, dtype: Any, shape: Any, what: str = "A parametrization must return a tensor.",
    when: str = "Registering a parametrization may not change the {} of the tensor, unless `unsafe` flag is enabled.",
    names: tuple[str, str] = ("unparametrized", "parametrized"),
) -> None:  # fmt: skip
    if not isinstance(result, Tensor):
        raise located(ArgumentError(f"{what} Got {type(result).__name__}."))
    for field, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
        if before != after:
            raise located(
                ArgumentError(f"{when.format(field)}\n{names[0]} {field}: {before}\n{names[1]} {field}: {after}")
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.tensor_name` be `parametrization` of the tensor that it was; another one comes on top.

    The tensor that is trained is `module.parametrizations[tensor_name].original`. If the parametrization has a method
    `right_inverse`, it is called with the present value, and with what is assigned later. Unless `unsafe`, the result
    must have the tensor's shape and dtype.

    >>> import jitgrad as jg
    >>> from jitgrad.nn.utils import parametrize
    >>> class Symmetric(jg.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = parametrize.register_parametrization(jg.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_on_top(getattr(module, tensor_name), parametrization)
        known: Any = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = made
        set_computed(module, tensor_name, _Parametrized(tensor_name), "Parametrized")
    else:
        raise located(
            ArgumentError(
                f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                f"'{tensor_name}'"
            )
        )
    return module


def _check_on_top(value: Any, parametrization: Any) -> None:
    """A parametrization that comes on top of others may not change the tensor's type, nor may its inverse."""
    result = parametrization(value)
    _check_result(result, value.dtype, value.shape)
    back = _inverse_or_same(parametrization, result)
    if back is not result:
        _check_result(
            back, value.dtype, value.shape, "parametrization.right_inverse must return a tensor.",
            "The tensor returned by parametrization.right_inverse must have the same {} as module.{{tensor_name}}, "
            "unless the `unsafe` flag is enabled.", ("module", "returned"),
        )  # fmt: skip


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrized tensor (of this name, if one is given)."""
    known = getattr(module, "parametrizations", None)
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one, with the value it has, or else with the original's."""
    if not is_parametrized(module, tensor_name):
        raise located(ArgumentError(f"Module {module} does not have a parametrization on {tensor_name}"))
    known: Any = module.parametrizations[tensor_name]
    if not known.is_tensor and not leave_parametrized:
        raise located(
            ArgumentError(
                "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
                "sequence of tensors."
            )
        )
    if not known.is_tensor:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        original = known.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            _set(original, value)
    del module.parametrizations[tensor_name]
    set_computed(module, tensor_name, None, "Parametrized")
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it got parametrizations."""
    return base_of(module) if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of `from_module`, and the tensors they are computed from."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        for part in source._names():
            setattr(target, part, getattr(source, part))
    return to_module
