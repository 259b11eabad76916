"""Pruning: elements of a module's parameters held at zero by masks.

A pruned parameter `weight` is a parameter `weight_orig` times a buffer `weight_mask`; `module.weight` is computed from
them where it is read. The pruning method stands among the module's forward pre-hooks, where `is_pruned` finds it.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DimError, PreconditionError

from ...errors import located
from ...linalg.norms import vector_norm
from ...random import rand, rand_like
from ...tensor import Tensor
from ..module import Module
from .computed import set_computed
from .vector import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """Base of pruning methods: a subclass says `PRUNING_TYPE` and `compute_mask`.

    The type says what a second pruning of the same parameter sees: "unstructured", the elements that are left;
    "structured", the slices along `self.dim` that are left; "global", all.
    """

    PRUNING_TYPE: str = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:  # noqa: B027 - it may be overridden, and need not
        """Nothing is left to do before `forward`: the parameter is computed where it is read."""

    def read(self, module: Any) -> Any:
        """The pruned parameter."""
        return self.apply_mask(module)

    def write(self, module: Any, value: Any) -> None:
        """It can't be set; what it is computed from can."""
        raise located(ArgumentError(f"prune: set {self._tensor_name}_orig in place of {self._tensor_name}"))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for `t`, which already has `default_mask`: of its shape, 0 where elements are pruned."""

    def apply_mask(self, module: Any) -> Any:
        """The parameter times its mask."""
        name = self._name_in(module)
        original, mask = getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask")
        return mask.to(original.dtype) * original

    def _name_in(self, module: Any) -> str:
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise located(PreconditionError(f"Module {module} has to be pruned"))
        return name

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune `module.name`, or more of it if it is pruned already; the method that is in force then.

        `args` and `kwargs` make the method. Elements are chosen by `importance_scores`, or else by themselves.
        """
        before, key = _method_of(module, name)
        made = cls(*args, **kwargs)
        made._tensor_name = name
        method = made if before is None else _joined(before, made)
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if scores.shape != value.shape:
            raise located(
                PreconditionError(f"importance_scores should have the same shape as parameter {name} of {module}")
            )
        given = value.new_ones(value.shape) if before is None else getattr(module, f"{name}_mask").clone()
        mask = method.compute_mask(scores.detach(), default_mask=given.detach())
        if before is None:
            original = module._parameters.pop(name)
            module.register_parameter(f"{name}_orig", original)
        else:
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        set_computed(module, name, method)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A pruned copy of a tensor; see `compute_mask`."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise located(PreconditionError("importance_scores should have the same shape as tensor t"))
        return t * self.compute_mask(scores, default_mask=t.new_ones(t.shape) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned parameter an ordinary one, with zeros where it was pruned."""
        name = self._name_in(module)
        value = self.apply_mask(module)
        set_computed(module, name, None)
        original = module._parameters.pop(f"{name}_orig")
        original.data = value.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _method_of(module: Any, name: str) -> tuple[BasePruningMethod | None, Any]:
    """The method by which `module.name` is pruned, and its key among the hooks."""
    for key, entry in module._forward_pre_hooks.items():
        if isinstance(entry.function, BasePruningMethod) and entry.function._tensor_name == name:
            return entry.function, key
    return None, None


def _joined(before: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    container = PruningContainer(*(before if isinstance(before, PruningContainer) else [before]))
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other on the same parameter."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Put a method, for the same parameter, at the end."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise located(ArgumentTypeError(f"{type(method)} is not a BasePruningMethod subclass"))
        if method is not None and method._tensor_name != self._tensor_name:
            raise located(
                ArgumentError(
                    f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                    f"PruningContainer {self}. Found '{method._tensor_name}'"
                )
            )
        self._pruning_methods += (method,)  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask after the last method, which is asked about what the mask has left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        left = _left(method, t, mask)
        new = mask.clone()
        new[left] = method.compute_mask(t[left], default_mask=mask[left]).to(new.dtype)
        return new


def _left(method: Any, t: Any, mask: Any) -> Any:
    """An index of what a mask leaves to a method."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.ndim
    if method.PRUNING_TYPE != "structured":
        raise located(ArgumentError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}"))
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    if not -t.ndim <= method.dim:
        raise located(DimError(f"Index is out of bounds for tensor with dimensions {t.ndim}"))
    dim = method.dim % t.ndim
    kept = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
    return tuple([kept if d == dim else slice(None) for d in range(t.ndim)])


class Identity(BasePruningMethod):
    """Prunes nothing, but makes mask and original as the others do."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask it had."""
        return default_mask


class _Some(BasePruningMethod):
    """Prunes an amount: a count, or a fraction of what there is."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, numbers.Real):
            raise located(ArgumentTypeError(f"Invalid type for amount: {amount}. Must be int or float."))
        is_count = isinstance(amount, numbers.Integral)
        if amount < 0 or (not is_count and amount > 1):
            raise located(
                ArgumentError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
            )
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of `size` are pruned."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        if self.amount > size:
            raise located(
                ArgumentError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}")
            )
        return int(self.amount)


class _Unstructured(_Some):
    """Prunes single elements: those of the lowest scores."""

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the elements of the lowest scores."""
        count = self._count(t.numel())
        if not count:
            return default_mask.clone()
        lowest = self._scores(t).reshape(-1).topk(count, largest=False).indices
        return default_mask.reshape(-1).index_fill(0, lowest, 0).reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prunes elements at random."""

    def _scores(self, t: Any) -> Any:
        return -rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the elements of the smallest absolute values."""

    def _scores(self, t: Any) -> Any:
        return t.abs()


class _Structured(_Some):
    """Prunes whole slices along `dim`: those of the lowest scores."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the slices of the lowest scores."""
        if t.ndim <= 1:
            raise located(
                ArgumentError(
                    "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                    f"{t.shape} with {t.ndim} dims"
                )
            )
        if self.dim >= t.ndim:
            raise located(DimError(f"Invalid index {self.dim} for tensor of size {t.shape}"))
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        kept = self._scores(t).topk(size - count).indices
        return t.new_zeros(t.shape).index_fill(self.dim, kept, 1) * default_mask.to(t.dtype)


class RandomStructured(_Structured):
    """Prunes slices at random."""

    def _scores(self, t: Any) -> Any:
        return rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices of the smallest n-norms."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return t.norm(p=self.n, dim=others) if isinstance(self.n, str) else vector_norm(t, self.n, others)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask it had, times the given one."""
        if default_mask.shape != self.mask.shape:
            raise located(
                PreconditionError(f"the mask has shape {self.mask.shape}, what it is for {default_mask.shape}")
            )
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Give `module.name` a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune an amount of elements of `module.name`, a count or a fraction, at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
    """Prune the amount of elements of `module.name` that have the smallest absolute values, or scores.

    >>> import jitgrad as jg
    >>> layer = jg.nn.utils.prune.l1_unstructured(jg.nn.Linear(2, 3), "weight", amount=2)
    >>> int((layer.weight == 0).sum()), list(layer.state_dict())
    (2, ['bias', 'weight_orig', 'weight_mask'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune an amount of slices of `module.name` along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prune the amount of slices of `module.name` along `dim` that have the smallest n-norms, of values or scores."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune `module.name` where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters, (module, name) pairs, as if they were one; `kwargs` are the method's."""
    if not isinstance(parameters, Iterable):
        raise located(ArgumentTypeError("global_unstructured(): parameters is not an Iterable"))
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise located(ArgumentTypeError("global_unstructured(): importance_scores must be of type dict"))
    pairs = list(parameters)
    values = [getattr(module, name) for module, name in pairs]
    scores = parameters_to_vector([given.get(pair, value) for pair, value in zip(pairs, values, strict=True)])
    masks = [getattr(module, f"{name}_mask", None) for module, name in pairs]
    before = parameters_to_vector([v.new_ones(v.shape) if m is None else m for m, v in zip(masks, values, strict=True)])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise located(
            ArgumentTypeError(
                'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                f"{pruning_method} of type {method.PRUNING_TYPE}"
            )
        )
    method._tensor_name = "all"
    mask: Any = PruningContainer(method).compute_mask(scores.detach(), before.detach())  # type: ignore[attr-defined]
    parts = mask.split([v.numel() for v in values])
    for (module, name), part, value in zip(pairs, parts, values, strict=True):
        custom_from_mask(module, name, part.reshape(value.shape))


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter an ordinary one, with zeros where it was pruned."""
    method, key = _method_of(module, name)
    if method is None:
        raise located(
            ArgumentError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
        )
    method.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one inside it, is pruned."""
    hooks = [entry.function for part in module.modules() for entry in part._forward_pre_hooks.values()]
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)
