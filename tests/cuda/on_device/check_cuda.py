"""`jitgrad.cuda`: devices, streams, events, memory, graphs."""

import gc

import pytest

import jitgrad as jg


def test_devices():
    assert jg.cuda.is_available() and jg.cuda.device_count() >= 1 and jg.cuda.is_initialized()
    assert jg.cuda.current_device() == 0
    facts = jg.cuda.get_device_properties(0)
    assert facts.name == jg.cuda.get_device_name("cuda:0") and facts.total_memory > 0
    assert (facts.major, facts.minor) == jg.cuda.get_device_capability() and jg.cuda.is_bf16_supported()
    assert jg.cuda.get_arch_list() and not jg.cuda.can_device_access_peer(0, 0)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        jg.cuda.get_device_name("cpu")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        jg.cuda.set_device(99)


@pytest.mark.skipif(jg.cuda.device_count() < 2, reason="one device")
def test_several_devices():
    x = jg.arange(3.0, device="cuda:1")
    assert x.device.index == 1 and (x * 2).device == x.device
    with jg.cuda.device(1):
        assert jg.cuda.current_device() == 1 and jg.zeros(1, device="cuda").device.index == 1
    with jg.cuda.device_of(x):
        assert jg.zeros(1).cuda().device.index == 1
    assert jg.cuda.current_device() == 0
    assert x.to("cuda:0").device.index == 0 and x.to("cuda:0").tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cuda:1"):
        x.to("cuda:0") + x
    f = jg.compile(lambda x: x * 2 + 1)
    for device in ("cuda:0", "cuda:1", "cpu", "cuda:1"):
        assert f(x.to(device)).device == x.to(device).device


def test_memory():
    jg.cuda.synchronize()
    gc.collect()
    before = jg.cuda.memory_allocated()
    jg.cuda.reset_peak_memory_stats()
    x = jg.zeros(1 << 18, device="cuda")
    assert jg.cuda.memory_allocated() - before >= 1 << 20
    part = x[5:]
    del x
    assert jg.cuda.memory_allocated() - before >= 1 << 20
    del part
    assert jg.cuda.memory_allocated() == before
    assert jg.cuda.max_memory_allocated() - before >= 1 << 20
    reserved = jg.cuda.memory_reserved()
    assert reserved >= jg.cuda.memory_allocated() and jg.cuda.max_memory_reserved() >= reserved
    jg.cuda.empty_cache()
    assert jg.cuda.memory_reserved() < reserved
    free, total = jg.cuda.mem_get_info()
    assert 0 < free <= total
    stats = jg.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and stats["allocation.all.allocated"] > 0
    assert "allocated" in jg.cuda.memory_summary()


def test_out_of_memory():
    _, total = jg.cuda.mem_get_info()
    with pytest.raises(jg.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        jg.empty(total, device="cuda")
    assert issubclass(jg.cuda.OutOfMemoryError, RuntimeError)
    assert jg.ones(2, device="cuda").tolist() == [1.0, 1.0]


def test_blocks_are_used_again():
    a = jg.zeros(1000, device="cuda")
    at = a.data_ptr()
    del a
    assert jg.ones(1000, device="cuda").data_ptr() == at


def test_streams_and_events():
    s = jg.cuda.Stream()
    assert jg.cuda.current_stream() == jg.cuda.default_stream() != s
    start, end = (jg.cuda.Event(enable_timing=True) for _ in range(2))
    x = jg.ones(100, device="cuda")
    s.wait_stream(jg.cuda.current_stream())
    with jg.cuda.stream(s):
        assert jg.cuda.current_stream() == s
        start.record()
        y = x * 3
        x.record_stream(s)
        end.record()
    s.synchronize()
    assert s.query() and end.query() and start.elapsed_time(end) >= 0
    jg.cuda.current_stream().wait_event(end)
    assert (y + 1).tolist() == [4.0] * 100
    with pytest.raises(RuntimeError, match="enable_timing"):
        jg.cuda.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(jg.cuda.Event(enable_timing=True))
    assert "cuda_stream" in repr(s) and "Event" in repr(start) and hash(s) == hash(s)


def test_graphs():
    x = jg.arange(5.0, device="cuda")
    (x.sin() * 2 + jg.ones(5, device="cuda")).sum()  # kernels are there
    g = jg.cuda.CUDAGraph()
    with jg.cuda.graph(g):
        y = x.sin() * 2 + 1
        z = y.sum()
        assert jg.cuda.is_current_stream_capturing()
    for k in range(3):
        x.fill_(float(k))
        g.replay()
        assert y.tolist() == (x.sin() * 2 + 1).tolist() and z.item() == pytest.approx(5 * y[0].item())
    with pytest.raises(RuntimeError, match="without a preceding"):
        jg.cuda.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="captur"), jg.cuda.graph(jg.cuda.CUDAGraph()):
        x.sum().item()
    assert x.sum().item() == 10.0


def test_compiled_calls_replay_graphs():
    f = jg.compile(lambda x, w: ((x @ w).relu() @ w).softmax(-1))
    x, w = jg.rand(4, 4, device="cuda"), jg.rand(4, 4, device="cuda")
    expected = f(x.cpu(), w.cpu()).tolist()
    for _ in range(6):
        y = f(x, w)
        for ours, theirs in zip(y.tolist(), expected, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5)
        del y
        w = w.clone()
