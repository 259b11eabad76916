"""The garbage collector is put off while graphs are made, by whichever thread, and is as it was afterwards."""

import gc
import os
import threading

import pytest

from jitgrad.ir.collection import PAUSE


def test_pauses_overlap_and_leave_the_collector_as_it_was():
    gc.disable()
    with PAUSE:
        pass
    assert not gc.isenabled()
    gc.enable()
    ready, go = threading.Event(), threading.Event()

    def other():
        with PAUSE:
            ready.set()
            go.wait(10)

    thread = threading.Thread(target=other)
    with PAUSE:
        thread.start()
        ready.wait(10)
    assert not gc.isenabled()
    go.set()
    thread.join()
    assert gc.isenabled()


def test_a_pause_ends_with_an_error():
    with pytest.raises(ValueError, match="no"), PAUSE:
        raise ValueError("no")
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_pauses_for_nobody():
    with PAUSE:
        child = os.fork()
        if child == 0:
            with PAUSE:
                pass
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()
