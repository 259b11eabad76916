"""For tests: `assert_close` and `make_tensor`, as in `torch.testing`."""

from .comparison import assert_allclose, assert_close
from .creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
