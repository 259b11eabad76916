"""Other shapes, other orders of axes, repeated axes: views, where PyTorch gives views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ShapeError
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.complex import Conj
from jitgrad.ir.ops.reinterpret import Reinterpret
from jitgrad.ir.ops.shape import Permute, Reshape, moved_axis_permutation

from ..aliasing import is_view, view
from ..dispatch import apply
from ..errors import located
from ..known_views import known
from ..rebinding import view_in_place
from ..tensor import Tensor
from .dims import normalize_dim, normalize_dims, sizes
from .registry import numpy_names, public


def resolve_shape(shape: Sequence[int], numel: int) -> tuple[int, ...]:
    """`shape` with a single -1 replaced by what makes it hold `numel` elements."""
    unknown = [i for i, n in enumerate(shape) if n == -1]
    if len(unknown) > 1:
        raise located(ShapeError("only one dimension can be inferred"))
    if any(n < -1 for n in shape):
        raise located(ShapeError(f"invalid shape dimension {min(shape)}"))
    if not unknown:
        if math.prod(shape) != numel:
            raise located(ShapeError(f"shape '{list(shape)}' is invalid for input of size {numel}"))
        return tuple(shape)
    rest = math.prod(n for n in shape if n != -1)
    if rest == 0 and numel == 0:
        raise located(
            ShapeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
                "dimension size -1 can be any value and is ambiguous"
            )
        )
    if rest == 0 or numel % rest:
        raise located(ShapeError(f"shape '{list(shape)}' is invalid for input of size {numel}"))
    return tuple(numel // rest if n == -1 else n for n in shape)


@public()
@known
def reshape(input: Tensor, *args: Any, shape: Sequence[int] | None = None) -> Tensor:
    """The elements in row-major order in another shape, as a view where possible; one length may be -1.

    >>> import jitgrad as jg
    >>> jg.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    wanted = sizes(args if shape is None else (shape,), "reshape: shape")
    return view(Reshape(resolve_shape(wanted, input.numel())), input)


@public("view", function=False)
@known
def view_method(input: Tensor, *args: Any, dtype: Any = None, size: Sequence[int] | None = None) -> Tensor:
    """Like `reshape`, but an error where a copy would be needed; with a dtype, the same bits as elements of that.

    >>> import jitgrad as jg
    >>> jg.arange(6).view(3, 2).shape
    jitgrad.Size([3, 2])
    """
    if dtype is None and len(args) == 1 and isinstance(args[0], dtypes.DType):
        dtype = args[0]
    if dtype is not None:
        return view(Reshape(tuple(input.shape)) if dtype is input.dtype else Reinterpret(dtype), input)
    op = Reshape(resolve_shape(sizes(args if size is None else (size,), "size"), input.numel()))
    if not is_view(op, input):
        raise located(
            ShapeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension "
                "spans across two contiguous subspaces). Use .reshape(...) instead."
            )
        )
    return view(op, input)


@public(function=False)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`input.view(other.shape)`."""
    return view_method(input, *other.shape)


@public(function=False)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`input.reshape(other.shape)`."""
    return reshape(input, *other.shape)


@public()
@known
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim` as one.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3, 4).flatten(1).shape
    jitgrad.Size([2, 12])
    """
    start, end = normalize_dim(start_dim, input.ndim), normalize_dim(end_dim, input.ndim)
    if start > end:
        raise located(ShapeError("flatten() has invalid args: start_dim cannot come after end_dim"))
    shape = input.shape
    if input.ndim == 0:
        return view(Reshape((1,)), input)
    if start == end:
        return input
    return view(Reshape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])), input)


@public()
@known
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Axis `dim` split into axes of the given lengths, one of which may be -1.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 12).unflatten(1, (3, -1)).shape
    jitgrad.Size([2, 3, 4])
    """
    axis = normalize_dim(dim, input.ndim)
    if not sizes:
        raise located(ShapeError("unflatten: sizes must be non-empty"))
    parts = resolve_shape(tuple(sizes), input.shape[axis])
    return view(Reshape((*input.shape[:axis], *parts, *input.shape[axis + 1 :])), input)


@public()
@known
def ravel(input: Tensor) -> Tensor:
    """The elements in row-major order as one axis."""
    return view(Reshape((input.numel(),)), input)


@public()
@known
@numpy_names
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the axes of length 1, or without those of them named by `dim`.

    >>> import jitgrad as jg
    >>> jg.zeros(1, 3, 1).squeeze(0).shape
    jitgrad.Size([3, 1])
    """
    axes = range(input.ndim) if dim is None else normalize_dims(dim, input.ndim)
    shape = tuple(n for a, n in enumerate(input.shape) if n != 1 or a not in axes)
    return view(Reshape(shape), input)


@public()
@known
@numpy_names
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new axis of length 1 at `dim`.

    >>> import jitgrad as jg
    >>> jg.zeros(3).unsqueeze(-1).shape
    jitgrad.Size([3, 1])
    """
    axis = normalize_dim(dim, input.ndim + 1)
    return view(Reshape((*input.shape[:axis], 1, *input.shape[axis:])), input)


@public()
@known
def permute(input: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The axes in the order `dims`.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3, 4).permute(2, 0, 1).shape
    jitgrad.Size([4, 2, 3])
    """
    wanted = sizes(args if dims is None else (dims,), "permute: dims")
    if len(wanted) != input.ndim:
        raise located(
            ShapeError(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                f"the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to "
                f"len(dims) = {len(wanted)}".replace("(sparse_coo)", "")
            )
        )
    perm = tuple([normalize_dim(d, input.ndim) for d in wanted])
    if len(set(perm)) != len(perm):
        raise located(ShapeError("permute(): duplicate dims are not allowed."))
    return view(Permute(perm), input)


@public("transpose", "swapaxes", "swapdims")
@known
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3).transpose(0, 1).shape
    jitgrad.Size([3, 2])
    """
    return view(_exchange(input.ndim, dim0, dim1), input)


def _exchange(ndim: int, dim0: int, dim1: int) -> Permute:
    a, b = normalize_dim(dim0, ndim), normalize_dim(dim1, ndim)
    perm = list(range(ndim))
    if perm:
        perm[a], perm[b] = b, a
    return Permute(tuple(perm))


@public()
@known
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; tensors of fewer axes as they are."""
    if input.ndim > 2:
        raise located(ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D"))
    return view(Permute(tuple(range(input.ndim))[::-1]), input)


@known
def _reversed_axes(input: Tensor) -> Tensor:
    """All axes in reverse order."""
    return view(Permute(tuple(range(input.ndim))[::-1]), input)


@known
def _matrix_transpose(input: Tensor) -> Tensor:
    """The last two axes exchanged."""
    if input.ndim < 2:
        raise located(
            ShapeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor.")
        )
    return transpose(input, -2, -1)


@public(function=True)
def adjoint(input: Tensor) -> Tensor:
    """The conjugate of the matrix transpose."""
    if input.ndim < 2:
        raise located(
            ShapeError(
                f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
            )
        )
    out = transpose(input, -2, -1)
    return apply(Conj(), out) if input.dtype.is_complex else out


def _hermitian(input: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if input.ndim not in (0, 2):
        raise located(ShapeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor."))
    return adjoint(input) if input.ndim == 2 else input


@public("movedim", "moveaxis")
@known
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes `source` put at the places `destination`; the others keep their order.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3, 4).movedim(0, -1).shape
    jitgrad.Size([3, 4, 2])
    """
    ndim = input.ndim
    origins, targets = (
        normalize_dims(source, ndim, "source"),
        normalize_dims(destination, ndim, "destination"),
    )
    if len(origins) != len(targets):
        raise located(
            ShapeError(
                "movedim: Invalid source or destination dims: source "
                f"({list(origins)} dims) should contain the same number of dims as destination ({list(targets)} dims)"
            )
        )
    if ndim == 0:
        return view(Permute(()), input)
    if len(origins) == 1:
        return view(Permute(moved_axis_permutation(ndim, origins[0], targets[0])), input)
    placed = dict(zip(targets, origins, strict=True))
    rest = iter([a for a in range(ndim) if a not in origins])
    return view(Permute(tuple([placed[a] if a in placed else next(rest) for a in range(ndim)])), input)


@public(function=False)
@known
def expand(input: Tensor, *args: Any, size: Sequence[int] | None = None, implicit: bool = False) -> Tensor:
    """A view with axes of length 1 repeated, and new axes in front; -1 keeps a length.

    >>> import jitgrad as jg
    >>> jg.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    wanted = sizes(args if size is None else (size,), "expand: size")
    extra = len(wanted) - input.ndim
    if extra < 0:
        raise located(
            ShapeError(
                f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to the number "
                f"of dimensions in the tensor ({input.ndim})"
            )
        )
    shape = []
    for axis, n in enumerate(wanted):
        have = input.shape[axis - extra] if axis >= extra else None
        if n < 0 and (have is None or n != -1):
            raise located(
                ShapeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {axis}"
                )
            )
        if have is not None and have not in (1, n) and n != -1:
            raise located(
                ShapeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({have}) at "
                    f"non-singleton dimension {axis}.  Target sizes: {list(wanted)}.  "
                    f"Tensor sizes: {list(input.shape)}"
                )
            )
        shape.append(have if n == -1 and have is not None else n)
    return view(BroadcastTo(tuple(shape)), input)


@public(function=False)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input.expand(other.shape)`."""
    return expand(input, *other.shape)


@public()
@known
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """`input.expand(size)`."""
    return expand(input, *size)


@public(function=False)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the axes along which `size` would be repeated to get the shape of this tensor.

    >>> import jitgrad as jg
    >>> jg.ones(2, 3).sum_to_size(3)
    tensor([2., 2., 2.])
    """
    wanted = sizes(size, "sum_to_size: size")
    extra = self.ndim - len(wanted)
    fits = extra >= 0 and all(n in (1, m) for n, m in zip(wanted, self.shape[extra:], strict=True))
    if not fits:
        raise located(ShapeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(self.shape)}}}."))
    if not wanted:
        return self.sum()  # type: ignore[attr-defined, no-any-return]
    axes = tuple(a for a, n in enumerate(self.shape) if a < extra or (n != 1 and wanted[a - extra] == 1))
    out = self.sum(axes, keepdim=True) if axes else self  # type: ignore[attr-defined]
    return view(Reshape(wanted), out) if out.shape != wanted else out


@public(function=False)
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """In-place form of `unsqueeze`."""
    axis = normalize_dim(dim, self.ndim + 1)
    return view_in_place(self, Reshape((*self.shape[:axis], 1, *self.shape[axis:])), "unsqueeze_")


@public(function=False)
def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """In-place form of `squeeze`."""
    return view_in_place(self, Reshape(tuple(squeeze(self.detach(), dim).shape)), "squeeze_")  # type: ignore[attr-defined]


@public("transpose_", "swapaxes_", "swapdims_", function=False)
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """In-place form of `transpose`."""
    return view_in_place(self, _exchange(self.ndim, dim0, dim1), "transpose_")


@public(function=False)
def t_(self: Tensor) -> Tensor:
    """In-place form of `t`."""
    if self.ndim > 2:
        raise located(ShapeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self.ndim}D"))
    return view_in_place(self, Permute(tuple(range(self.ndim))[::-1]), "t_")


Tensor.T = property(_reversed_axes)  # type: ignore[attr-defined]
Tensor.mT = property(_matrix_transpose)  # type: ignore[attr-defined]
Tensor.H = property(_hermitian)  # type: ignore[attr-defined]
Tensor.mH = property(adjoint)  # type: ignore[attr-defined]
