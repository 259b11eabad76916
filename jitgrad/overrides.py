"""Functions whose meaning others change: `__torch_function__` of subclasses and `TorchFunctionMode`, as in PyTorch.

    class Labelled(jg.Tensor):                     results are `Labelled` again
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None): ...

A program without such a class pays nothing: the first one that is made puts a function that asks around each public
function, method and operator. Names bound before (`from jitgrad import add`) stay what they were. Classes that are no
tensors are asked from then on, too.
"""

from __future__ import annotations

import functools
import sys
import types as python_types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitgrad.ir.errors import ArgumentTypeError

from .errors import located
from .functions.registry import FUNCTIONS
from .mode import local
from .tensor import Tensor
from .tensor_types import as_subclass

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode", "enable_reentrant_dispatch",
    "get_default_nowrap_functions", "handle_torch_function", "has_torch_function", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip

_PACKAGE = __name__.partition(".")[0]
_MODULES = ("nn.functional", "linalg", "fft", "special", "signal.windows", "masked")
# Of these tensors are not asked, but modes are: they make tensors of something else, or none.
_MAKES = frozenset([
    "arange", "as_strided", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_permuted",
    "empty_strided", "eye", "from_numpy", "frombuffer", "full", "hamming_window", "hann_window", "kaiser_window",
    "linspace", "logspace", "normal", "ones", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "range", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "vander", "zeros",
])  # fmt: skip
# Settings and questions about Python values.
_NOT_ASKED = frozenset([
    "are_deterministic_algorithms_enabled", "associative_scan", "broadcast_shapes", "can_cast", "cond", "finfo",
    "from_dlpack", "get_default_dtype", "get_deterministic_debug_mode", "get_float32_matmul_precision",
    "get_num_interop_threads", "get_num_threads", "get_printoptions", "get_rng_state", "iinfo", "initial_seed",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_deterministic_algorithms_warn_only_enabled", "is_storage",
    "is_tensor", "is_warn_always_enabled", "load", "manual_seed", "map", "printoptions", "promote_types", "save",
    "scan", "seed", "set_anomaly_enabled", "set_default_dtype", "set_default_tensor_type",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
    "set_num_threads", "set_printoptions", "set_rng_state", "set_warn_always", "typename",
    "use_deterministic_algorithms", "while_loop",
])  # fmt: skip
_PLAIN_METHODS = frozenset([
    "__array_namespace__", "__array_ufunc__", "__class__", "__delattr__", "__dir__", "__getattribute__", "__hash__",
    "__init__", "__init_subclass__", "__new__", "__reduce__", "__setattr__", "__sizeof__", "__subclasshook__",
    "__torch_function__", "_make_subclass", "as_subclass", "new", "new_empty", "new_empty_strided", "new_full",
    "new_ones", "new_tensor", "new_zeros", "stride",
])  # fmt: skip
_SHOWS = frozenset(["__repr__", "__str__", "__format__"])  # for which classes are not asked, so that they can print
_NUMBERS = frozenset([bool, int, float, complex, str, type(None)])
_TENSOR_PROPERTIES = ("H", "T", "data", "grad", "imag", "mH", "mT", "real")

_METHODS_OF_OPERATORS = {
    "__abs__": "abs", "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__matmul__": "matmul", "__mod__": "remainder", "__neg__": "neg", "__pos__": "positive",
    "__pow__": "pow", "__gt__": "gt", "__ge__": "ge", "__lt__": "lt", "__le__": "le", "__ne__": "ne",
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__imod__": "remainder_",
    "__ifloordiv__": "floor_divide_", "__ipow__": "pow_", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
}  # fmt: skip

Function = Callable[..., Any]


class NoImplementation(ArgumentTypeError):
    """All that were asked about a function have returned NotImplemented."""


class _State:
    """Whether public functions ask, and what they are without it."""

    asks = False
    replaced: Final[list[tuple[Any, str, Any]]] = []
    originals: Final[dict[Function, Function]] = {}
    names: Final[dict[Any, str]] = {}


def does_override(kind: type) -> bool:
    """Whether functions ask a class what they mean for its instances."""
    own = getattr(kind, "__torch_function__", None)
    if own is None or kind is Tensor:
        return False
    return getattr(own, "__func__", own) is not not_overridden


def _classes(values: Iterable[Any]) -> list[Any]:
    """One value of each class to be asked, as they come, subclasses before the classes they are of."""
    found: list[Any] = []
    for x in values:
        kind = type(x)
        if kind is Tensor or kind in _NUMBERS or not does_override(kind):
            continue
        if all(type(y) is not kind for y in found):
            place = next((i for i, y in enumerate(found) if issubclass(kind, type(y))), len(found))
            found.insert(place, x)
    return found


def asks(x: Any) -> bool:
    """Whether functions ask the class of this argument, or of an item of it."""
    return bool(_classes(_with_items((x,))))


def any_asks(leaves: Iterable[Any]) -> bool:
    """Whether functions ask the class of one of these, which takes no time where there is no such class."""
    return _State.asks and not local.mode.overrides_off and bool(_classes(leaves))


def _with_items(values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        if isinstance(x, (tuple, list)):
            yield from x
        else:
            yield x


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a function of these arguments would ask one of their classes, or a mode.

    >>> import jitgrad as jg
    >>> jg.overrides.has_torch_function((jg.ones(2),))
    False
    """
    mode = local.mode
    return bool(mode.function_modes) or (not mode.overrides_off and bool(_classes(relevant_args)))


def handle_torch_function(public_api: Function, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the innermost mode, or else the arguments' classes say of `public_api(*args, **kwargs)`.

    Raises a TypeError if all of them return NotImplemented.
    """
    asked = [] if local.mode.overrides_off else _classes(relevant_args)
    kinds = tuple(map(type, asked))
    if local.mode.function_modes:
        with _outer_modes() as innermost:
            result = innermost.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for x in asked:
        result = type(x).__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = resolve_name(public_api) or getattr(public_api, "__name__", repr(public_api))
    names = [kind.__name__ for kind in kinds]
    raise located(
        NoImplementation(f"no implementation found for {name!r} on types that implement __torch_function__: {names}")
    )


@contextmanager
def _outer_modes() -> Iterator[TorchFunctionMode]:
    """The innermost mode, while those around it are the ones that are asked."""
    mode = local.mode
    before = mode.function_modes
    mode.function_modes = before[:-1]
    try:
        yield before[-1]
    finally:
        mode.function_modes = before


class _Setting:
    """A context in which classes, and modes if `modes`, are (not) asked."""

    modes = False
    off = True

    def __enter__(self) -> None:
        mode = local.mode
        self._before = mode.overrides_off, mode.function_modes
        mode.overrides_off = self.off
        if self.modes:
            mode.function_modes = ()

    def __exit__(self, *exception: object) -> None:
        local.mode.overrides_off, local.mode.function_modes = self._before


class DisableTorchFunctionSubclass(_Setting):
    """A context in which functions ask no class of tensors; modes are asked.

    >>> import jitgrad as jg
    >>> class Mine(jg.Tensor):
    ...     pass
    >>> with jg.overrides.DisableTorchFunctionSubclass():
    ...     print(type(Mine([1.0]) + 1).__name__)
    Tensor
    """


class DisableTorchFunction(_Setting):
    """A context in which functions ask neither classes nor modes."""

    modes = True


class enable_reentrant_dispatch(_Setting):
    """A context in which classes are asked again."""

    off = False


class TorchFunctionMode:
    """A context in which every public function, method and operator asks the mode's `__torch_function__`.

    >>> import jitgrad as jg
    >>> class Log(jg.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     x = jg.ones(2).exp()
    ones
    exp
    """

    def __init__(self) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        ask()

    def __torch_function__(self, func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        local.mode.function_modes = (*local.mode.function_modes, self)
        return self

    def __exit__(self, *exception: object) -> None:
        local.mode.function_modes = local.mode.function_modes[:-1]


# what is asked around -----------------------------------------------------------------------------------------


def not_overridden(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of classes that are never asked, such as `Parameter`."""
    return NotImplemented


def ask() -> None:
    """From now on, public functions ask classes and modes."""
    if _State.asks:
        return
    _State.asks = True
    package = sys.modules[_PACKAGE]
    for name, f in list(FUNCTIONS.items()):
        if name not in _NOT_ASKED and getattr(package, name, None) is f:
            _put(package, name, _asking(f, f"{_PACKAGE}.{name}", name not in _MAKES))
    for path in _MODULES:
        module: Any = package
        for part in path.split("."):
            module = getattr(module, part)
        _around_functions(module, f"{_PACKAGE}.{path}.")
    _around_methods()


def ask_no_more() -> None:
    """Public functions as they were before any class was asked."""
    for owner, name, f in _State.replaced:
        setattr(owner, name, f)
    _State.replaced.clear()
    _State.asks = False


def _put(owner: Any, name: str, function: Any) -> None:
    _State.replaced.append((owner, name, vars(owner)[name]))
    setattr(owner, name, function)


def _around_functions(module: Any, prefix: str) -> None:
    for name, f in list(vars(module).items()):
        if not name.startswith("_") and isinstance(f, python_types.FunctionType | python_types.BuiltinFunctionType):
            _put(module, name, _asking(f, prefix + name, True))


def _around_methods() -> None:
    for name, f in list(vars(Tensor).items()):
        if name in _SHOWS:
            _put(Tensor, name, _unasked(f))
        elif name in _TENSOR_PROPERTIES:
            _put(Tensor, name, _asking_property(f, name))
        elif callable(f) and not isinstance(f, type | staticmethod | classmethod) and name not in _PLAIN_METHODS:
            _put(Tensor, name, _asking(f, f"{_PACKAGE}.Tensor.{name}", True))
    for name, method in _METHODS_OF_OPERATORS.items():
        setattr(Tensor, name, _asking_operator(vars(Tensor)[name].__wrapped__, vars(Tensor)[method]))  # put above


def _asking(f: Function, name: str, of_tensors: bool) -> Function:
    """`f`, which asks modes, and the classes of its arguments if `of_tensors`."""
    known = _State.originals.get(f)
    if known is not None:
        return known

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        if mode.function_modes:
            return handle_torch_function(function, _relevant(args, kwargs) if of_tensors else (), *args, **kwargs)
        if of_tensors and not mode.overrides_off:
            for x in (*args, *kwargs.values()) if kwargs else args:
                if x.__class__ is not Tensor and x.__class__ not in _NUMBERS and asks(x):
                    return handle_torch_function(function, _relevant(args, kwargs), *args, **kwargs)
        return f(*args, **kwargs)

    function.__name__ = name.rpartition(".")[2]
    _State.originals[f] = function
    _State.names[function] = name
    return function


def _asking_operator(f: Function, method: Function) -> Function:
    """The operator `f`, which is known as the method that does the same; other classes may know what it is."""

    @functools.wraps(f)
    def function(*args: Any) -> Any:
        mode = local.mode
        if not mode.function_modes:
            for x in args:
                if x.__class__ is not Tensor and x.__class__ not in _NUMBERS:
                    break
            else:
                return f(*args)
            if mode.overrides_off or not _classes(args):
                return f(*args)
        try:
            return handle_torch_function(method, args, *args)
        except NoImplementation:
            return NotImplemented

    return function


def _relevant(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    return _with_items((*args, *kwargs.values()) if kwargs else args)


def _unasked(f: Function) -> Function:
    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunction():
            return f(*args, **kwargs)

    return function


def _asking_property(own: Any, name: str) -> property:
    """The property `own`, whose function is known as `Tensor.name.__get__`."""

    def get(self: Tensor) -> Any:
        mode = local.mode
        if mode.function_modes or (type(self) is not Tensor and not mode.overrides_off and does_override(type(self))):
            return handle_torch_function(getter, (self,), self)
        return own.__get__(self)

    made = property(get, own.__set__ if getattr(own, "fset", True) else None, doc=own.__doc__)
    getter = made.__get__
    _State.names[getter] = f"{_PACKAGE}.Tensor.{name}.__get__"
    return made


def _of_class(cls: type[Tensor], func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`Tensor.__torch_function__`: calls the function, whose tensors become instances of `cls`."""
    kwargs = kwargs or {}
    if _is_of_torch(func):
        own = _counterpart(func)
        if own is None or any(isinstance(x, sys.modules["torch"].Tensor) for x in (*args, *kwargs.values())):
            return NotImplemented
        return own(*args, **kwargs)
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    return result if cls is Tensor or func in get_default_nowrap_functions() else _as_class(result, cls)


def _is_of_torch(func: Any) -> bool:
    """Whether it is one of PyTorch's, whose protocol this is as well."""
    if func in _State.names or "torch.overrides" not in sys.modules:
        return False
    return not isinstance(func, python_types.FunctionType) or func.__module__.partition(".")[0] == "torch"


@functools.lru_cache(1024)
def _counterpart(function: Any) -> Function | None:
    """jitgrad's function or method with the name of one of PyTorch's."""
    name = sys.modules["torch.overrides"].resolve_name(function)
    found: Any = sys.modules[_PACKAGE]
    for part in (name or "").split(".")[1:]:
        found = getattr(found, part, None)
    return found if name and callable(found) else None


def _as_class(result: Any, cls: type[Tensor]) -> Any:
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)) and any(isinstance(x, (Tensor, tuple, list)) for x in result):
        items = [_as_class(x, cls) for x in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


# questions ----------------------------------------------------------------------------------------------------


def get_default_nowrap_functions() -> set[Function]:
    """Functions whose results stay plain tensors: that of the attribute `grad`.

    >>> import jitgrad as jg
    >>> len(jg.overrides.get_default_nowrap_functions())
    1
    """
    return {Tensor.grad.__get__}


def resolve_name(f: Function) -> str | None:
    """The public name of a function that asks, such as `jitgrad.Tensor.add`; None for others.

    >>> import jitgrad as jg
    >>> jg.overrides.resolve_name(print) is None
    True
    """
    return _State.names.get(f)


def is_tensor_method_or_property(func: Function) -> bool:
    """Whether it is a method of `Tensor`, or stands for one of its attributes.

    >>> import jitgrad as jg
    >>> jg.overrides.is_tensor_method_or_property(print)
    False
    """
    return (resolve_name(func) or "").startswith(f"{_PACKAGE}.Tensor.")


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or of a class that functions ask.

    >>> import jitgrad as jg
    >>> jg.overrides.is_tensor_like(jg.ones(2)), jg.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Function], Function]:
    """Decorator: a function of one's own that asks; `dispatcher` gives those of its arguments that count.

    >>> import jitgrad as jg
    >>> @jg.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x + x
    >>> double(jg.ones(1))
    tensor([2.])
    """

    def decorate(f: Function) -> Function:
        @functools.wraps(f)
        def function(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(function, relevant, *args, **kwargs)
            return f(*args, **kwargs)

        return function

    return decorate


def _made(cls: type[Tensor], **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)
    if does_override(cls):
        ask()


Tensor.__torch_function__ = classmethod(_of_class)  # type: ignore[attr-defined]
Tensor.__init_subclass__ = classmethod(_made)  # type: ignore[assignment]
