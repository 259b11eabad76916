"""What an op is: a frozen dataclass whose fields are its attributes, and whose methods are its whole meaning.

An op class states, in one place:

- its docstring (the public documentation),
- `infer`: the only rule for shapes and dtypes, raising the error users see,
- `reference`: its meaning in NumPy, used by the interpreter, the constant folder and small eager tensors,
- `vjp`: its gradient, built out of ops that are differentiable themselves,
- `batch`, or the trait `batchable`: the same for many samples at once,
- one of `scalar` (pointwise), `element` (an index map), the accumulators of a `Reduction`,
  or `decompose` (composites). An op with none of them runs through its reference.

Ops are interned: equal ops are the same object, so `is`, `==` and `hash` are by identity.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, dataclass_transform
from weakref import WeakValueDictionary

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import DTypeError, InternalError, ShapeError, operand_lines
from .scalar import Expr, Number
from .symbols import SymbolicFloat, SymbolicInt
from .types import Shape, TensorType

if TYPE_CHECKING:
    from .builder import Builder
    from .graph import Value

Array = Any  # a NumPy array, or for several results a tuple of them
Values: TypeAlias = "Sequence[Value]"
Cotangents: TypeAlias = "Sequence[Value | None]"  # None means zero, or not needed
Batched: TypeAlias = "Sequence[Value] | None"  # None: as without a rule
_C = TypeVar("_C", bound=type)


class Load(Protocol):
    """Reads one element of an operand whose type is `type`.

    Calling it gives the element at `index` (one int64 expression per axis, 0-d: `()`). Where the bool
    expression `mask` is false nothing is read and the number `fill` is given (0 unless told otherwise).
    """

    @property
    def type(self) -> TensorType:
        """The operand's type."""

    def __call__(self, index: Sequence[Expr], mask: Expr | None = None, fill: Number | None = None) -> Expr:
        """The element at `index`."""


def _exact(value: Any) -> Hashable:
    """A key that tells 1 from 1.0 and True, and 0.0 from -0.0, and that equals itself for NaN."""
    if isinstance(value, tuple):
        return tuple(map(_exact, value))
    if isinstance(value, float):
        return (
            (type(value), value.hex(), str(value.expression))
            if isinstance(value, SymbolicFloat)
            else ("float", value.hex())
        )
    if isinstance(value, complex):
        return ("complex", value.real.hex(), value.imag.hex())
    if isinstance(value, SymbolicInt):
        return (type(value), int(value), str(value.expression))
    return (type(value), value)


def _as_float(value: Any) -> Any:
    """What only says that it is a float as the float that it is, because ops outlive it."""
    if value.__class__ is tuple:
        return tuple(map(_as_float, value))
    return float(value) if value.__class__ is float and type(value) is not float else value


_PLAIN = frozenset((int, bool, str, DType, type(None)))
_MAX_RECENT = 2000


def _is_plain(args: tuple[Any, ...]) -> bool:
    """Whether equal arguments of equal types mean the same: not for -0.0, which equals 0.0, nor for NaN."""
    for a in args:
        if a.__class__ is tuple:
            for x in a:
                if x.__class__ is not int:
                    return False
        elif a.__class__ is float:
            if a != a or (a == 0.0 and math.copysign(1.0, a) < 0.0):
                return False
        elif a.__class__ not in _PLAIN:
            return False
    return True


@functools.lru_cache(4096)
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


class _OpMeta(type):
    """Interns instances by the content of their fields."""

    _instances: WeakValueDictionary[Hashable, Any]
    _recent: dict[Hashable, Any]  # by arguments as given, because interning by content takes microseconds

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._instances = WeakValueDictionary()
        cls._recent = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs or not _is_plain(args):
            return cls._interned(*args, **kwargs)
        key = (args, tuple(map(type, args)))
        found = cls._recent.get(key)
        if found is None:
            if len(cls._recent) >= _MAX_RECENT:
                cls._recent.clear()
            found = cls._recent[key] = cls._interned(*args)
        return found

    def _interned(cls, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(_as_float, args)), {k: _as_float(v) for k, v in kwargs.items()}
        made = super().__call__(*args, **kwargs)
        values = tuple([getattr(made, name) for name in _field_names(cls)])
        key: Hashable = (values, tuple(map(type, values))) if _is_plain(values) else tuple(map(_exact, values))
        return cls._instances.setdefault(key, made)


@dataclass_transform(frozen_default=True, eq_default=False)
def op(cls: _C) -> _C:
    """Class decorator: make `cls` a frozen dataclass compared by identity (instances are interned)."""
    own = [t for t in vars(cls).get("__annotations__", {}).values() if not str(t).startswith("ClassVar")]
    if not own and not getattr(cls, "__dataclass_fields__", None):
        cls.__dataclass_fields__ = {}  # type: ignore[attr-defined]  # no fields: nothing to generate, at each import
        return cls
    return dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)  # type: ignore[return-value]


class Op(metaclass=_OpMeta):
    """Base of all ops. Fields must be hashable: numbers, strings, dtypes, tuples of them, graphs."""

    name: ClassVar[str]
    commutative: ClassVar[bool] = False
    random: ClassVar[bool] = False
    effect: ClassVar[bool] = False
    differentiable: ClassVar[bool] = True
    copies_on_write: ClassVar[bool] = False  # what the gradient uses may be written afterwards: the tape copies it then
    batchable: ClassVar[bool] = False  # means the same, sample by sample, once `shifted` and given an axis in front

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Result types; raises a `JitgradError` that names the op, the rule and the operand types."""
        raise InternalError(f"op {self.name} has no infer rule")

    def reference(self, *operands: Array) -> Array:
        """The results computed by NumPy: an array, or a tuple of arrays for several results."""
        raise InternalError(f"op {self.name} has no reference")

    def vjp(
        self,
        b: Builder,
        operands: Sequence[Value],
        results: Sequence[Value],
        cotangents: Sequence[Value | None],
        needs: Sequence[bool],
    ) -> Sequence[Value | None]:
        """Cotangents of the operands that need one, given those of the results (None means zero)."""
        raise InternalError(f"op {self.name} has no gradient rule")

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Composites: the results in terms of simpler ops."""
        raise InternalError(f"op {self.name} does not decompose")

    def shifted(self, size: int) -> Op:
        """The op for operands that all have one more axis in front, of length `size`, if it is `batchable`."""
        own = self.attributes()
        changed: dict[str, Any] = {}
        if "axis" in own:
            changed["axis"] = own["axis"] + 1
        if "axes" in own:
            changed["axes"] = tuple([a + 1 for a in own["axes"]])
        if "shape" in own:
            changed["shape"] = (size, *own["shape"])
        return type(self)(**{**own, **changed}) if changed else self

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """The results for `size` samples at once, an axis of samples in front of each; `batched` operands have one too.

        `None` leaves it to what `ir.batching` does without a rule.
        """
        raise InternalError(f"op {self.name} has no batching rule")

    def value_checks(self, *operands: TensorType) -> Sequence[tuple[int, Op]]:
        """What eager execution refuses in operand values: (operand, check op) pairs; see `ops.check`."""
        return ()

    def can_emit(self, *operands: TensorType) -> bool:
        """Whether generated kernels take these operands; if not, the reference runs."""
        return all(not t.dtype.is_complex for t in operands)

    @classmethod
    def has_vjp(cls) -> bool:
        """Whether the class has its own gradient rule."""
        return cls.vjp is not Op.vjp

    @classmethod
    def has_batch(cls) -> bool:
        """Whether the class has its own batching rule."""
        return cls.batch is not Op.batch

    @classmethod
    def has_decomposition(cls) -> bool:
        """Whether the op is a composite."""
        return cls.decompose is not Op.decompose

    def attributes(self) -> dict[str, Any]:
        """Field values by name, in order."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]

    def __str__(self) -> str:
        inner = ", ".join(f"{k}={v}" for k, v in self.attributes().items())
        return f"{self.name}[{inner}]" if inner else self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self.attributes().values())

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: Any) -> Op:
        return self


class Pointwise(Op):
    """Each result element is a scalar expression of the operands' elements; all shapes are equal.

    `ufunc` is a NumPy function with the same meaning (it may broadcast); `accepts` names the dtype kinds.
    `fast` says that `ufunc` alone, called on float32 or float64 arrays (the second operand may be a Python
    number), gives the right values and dtype, broadcasting as it goes, so that small eager tensors may call it
    directly; ops of two operands on integer arrays too. `quick` says that it takes a single call of NumPy's, or two, so
    that native code is no faster on small tensors.

    How the frontend shows the op: as functions and methods called `public`, each also with `_` behind it
    where `inplace`. `promotes` is the rule for operands: "common" (their common dtype), "float" (the same,
    but integers become the default float type), "comparison" (common; a bool result), "bitwise" (no floats).
    Functions of two operands take Python numbers for `numbers` of them: "none", "second", "either" (but not
    both) or "both".
    """

    batchable: ClassVar[bool] = True
    arity: ClassVar[int] = 1
    public: ClassVar[tuple[str, ...]] = ()
    promotes: ClassVar[str] = "common"
    numbers: ClassVar[str] = "second"
    inplace: ClassVar[bool] = True
    fast: ClassVar[bool] = True
    quick: ClassVar[bool] = True
    ufunc: ClassVar[Callable[..., Any]]
    accepts: ClassVar[tuple[str, ...]] = ("bool", "int", "float", "complex")

    def result_dtype(self, *operands: DType) -> DType:
        """By default the operands' common dtype."""
        return operands[0]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Operands of equal shape and dtype."""
        first = operands[0]
        for other in operands:
            if other is not first and other.shape != first.shape:
                raise ShapeError(f"{self.name}: operand shapes differ{operand_lines(operands)}")
        self.check_dtypes(operands)
        dtype = self.result_dtype(*[t.dtype for t in operands])
        return (first if dtype is first.dtype else first.with_dtype(dtype),)

    def check_dtypes(self, operands: Sequence[TensorType]) -> None:
        """Equal dtypes of an accepted kind."""
        for t in operands:
            if t.dtype is not operands[0].dtype:
                raise DTypeError(f"{self.name}: operand dtypes differ{operand_lines(operands)}")
            if t.dtype.kind not in self.accepts:
                raise DTypeError(f"{self.name}: not defined for {t.dtype.name}{operand_lines(operands)}")

    def reference(self, *operands: Array) -> Array:
        """`ufunc` of the operands, in the result's dtype."""
        with np.errstate(all="ignore"):
            out = type(self).ufunc(*operands)
        want = self.result_dtype(*(dtypes.FROM_NUMPY[x.dtype] for x in operands)).np
        return np.asarray(out, dtype=want)

    def scalar(self, *xs: Expr) -> Expr:
        """The result element in terms of the operands' elements."""
        raise InternalError(f"op {self.name} has no scalar rule")

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """Loads at the same index, then `scalar`."""
        return self.scalar(*(load(index) for load in operands))


class IndexMap(Op):
    """Each result element is an expression of operand elements at computed indices.

    `element(index, operands)` gets one int64 expression per result axis, and for each operand a `Load`, whose
    `type` is the operand's and which gives the element at an index, masked if need be.
    """

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The result element at `index`."""
        raise InternalError(f"op {self.name} has no element rule")


class View(IndexMap):
    """An index map of one operand whose `reference` returns a NumPy view, so that writes pass through."""

    def prepared(self, shape: Shape) -> Callable[[Array], Array]:
        """What shows arrays of a shape as `reference` does, but writeable where they are, made ready for many calls."""
        return self.reference

    def preimage(self, index: tuple[Expr, ...], operand: TensorType) -> tuple[Expr, tuple[Expr, ...]] | None:
        """Where the view shows the operand's element at `index`: whether it does, and the index in the view.

        None for views that may show an element twice; writes through them run by the reference.
        """
        return None


class Reduction(Op):
    """Folds the axes `axes` of one operand, removed from the result or kept with length 1.

    The fold is described by scalar accumulators; all but the first operand's element are position-dependent,
    so that argmax is a reduction too: `step` gets the row-major position among the reduced axes.
    """

    batchable: ClassVar[bool] = True
    axes: tuple[int, ...]
    keepdim: bool

    def result_dtype(self, operand: DType) -> DType:
        """By default the operand's dtype."""
        return operand

    def reduced_shape(self, shape: Shape) -> Shape:
        """The result's shape."""
        if self.keepdim:
            return tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        return tuple(n for i, n in enumerate(shape) if i not in self.axes)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Axes within range, sorted and distinct."""
        (x,) = operands
        self.check_axes(self.name, self.axes, x)
        return (TensorType(self.reduced_shape(x.shape), self.result_dtype(x.dtype), x.device),)

    @staticmethod
    def check_axes(name: str, axes: tuple[int, ...], operand: TensorType) -> None:
        """Raise unless `axes` are within the operand's range, sorted and distinct."""
        if list(axes) != sorted(set(axes)) or any(not 0 <= a < operand.ndim for a in axes):
            raise ShapeError(f"{name}: axes {axes} do not fit {operand.ndim} axes{operand_lines([operand])}")

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The accumulators' starting values for an operand of `dtype`; their dtypes are the accumulators'."""
        raise InternalError(f"op {self.name} has no accumulators")

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """The accumulators after one more element."""
        raise InternalError(f"op {self.name} has no step")

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The accumulators of two neighbouring stretches, `left` first."""
        raise InternalError(f"op {self.name} has no merge")

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The result element from the accumulators, for an operand of `dtype`."""
        return accumulators[0]


class ScanOp(Op):
    """Goes along `axis`, from the other end if `reverse`: each result is made of the elements up to it.

    All operands and the result have one shape. The scan is described by scalar accumulators, as a reduction is.
    """

    batchable: ClassVar[bool] = True
    axis: int
    reverse: bool = False

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """The accumulators' starting values for operands of `dtype`; their dtypes are the accumulators'."""
        raise InternalError(f"op {self.name} has no accumulators")

    def step(self, accumulators: tuple[Expr, ...], elements: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The accumulators after one more element of each operand."""
        raise InternalError(f"op {self.name} has no step")

    def finish(self, accumulators: tuple[Expr, ...], dtype: DType) -> Expr:
        """The result element, for operands of `dtype`."""
        raise InternalError(f"op {self.name} has no result")

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        """The accumulators of two neighbouring stretches, `left` first; `None` if only one after another will do."""
        return None


class ScatterOp(Op):
    """Puts every element of the last operand to a place of the first: the transpose of an index map.

    What comes to one place comes in row-major order of the last operand. Elements whose place is outside are dropped.
    """

    def place(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> tuple[Expr, ...]:
        """Where the element at `index` of the last operand goes: one int64 expression per axis of the first."""
        raise InternalError(f"op {self.name} has no places")

    def meet(self, present: Expr, coming: Expr) -> Expr:
        """What is there after `coming` came to where `present` was."""
        raise InternalError(f"op {self.name} has no rule for what meets")

    def wide(self, dtype: DType) -> DType:
        """The type in which elements of `dtype` meet."""
        return dtype
