"""Python's garbage collector, put off while graphs are made.

Graphs are many small objects that stay. The collector takes their making for a reason to look through all objects of
the process, again and again: a tenth of a first call's time, for nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import Final


class CollectionPause:
    """`with` it, no garbage is collected by itself, in any thread. Where pauses overlap, it is none that ends first.

    >>> with PAUSE:
    ...     gc.isenabled()
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._depth == 1:
                self._end()
            self._depth = max(0, self._depth - 1)

    def _end(self) -> None:
        if self._was_enabled:
            gc.enable()

    def before_fork(self) -> None:
        """A child must not inherit a lock that is held."""
        self._lock.acquire()

    def in_parent(self) -> None:
        """After the fork."""
        self._lock.release()

    def in_child(self) -> None:
        """After the fork, in the child: who paused may be a thread that it has not."""
        if self._depth:
            self._end()
        self._depth = 0
        self._lock.release()


PAUSE: Final = CollectionPause()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=PAUSE.before_fork, after_in_parent=PAUSE.in_parent, after_in_child=PAUSE.in_child)
