"""Files of PyTorch (`.pth`, `.pt`), read without running what is in them, and written so that `torch.load` reads them.

A file is a pickle beside the memory of its tensors. A pickle is a program: it may name any function and call it. Here
it is followed by a machine of our own (`machine.py`) that knows the names in `names.py` and refuses all others.
"""

from .errors import PthError
from .reader import PTH_HEAD, is_pth, load_pth
from .writer import save_pth

__all__ = ["PTH_HEAD", "PthError", "is_pth", "load_pth", "save_pth"]
