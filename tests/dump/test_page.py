"""A dump's page: whole, self-contained, with the right data."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dump.step_page import block, write_page

import jitgrad as jg
from jitgrad.dump.html_page import SCRIPTS, packed, unpacked
from jitgrad.dump.machine_code import native_texts


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("dumps"))


@pytest.fixture(scope="module")
def data(page):
    return block(page, "data")


def test_it_needs_no_network(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(
        r"""(?:src|href|action)\s*=|url\(|@import|https?:|//\w+\.\w+/|\bfetch\(|XMLHttpRequest""", text
    )
    assert "default-src 'none'" in text
    assert not re.search(r"<!--[A-Z]+-->", text), "a part is missing"


def test_scripts_are_in_the_package():
    folder = Path(jg.dump.__file__).parent / "web-page"
    assert {p.name for p in folder.iterdir()} == {*SCRIPTS, "page.html", "page.css"}
    for script in SCRIPTS:
        assert (folder / script).read_text(encoding="utf-8").startswith("// "), f"{script} says what it is for"


def test_packing():
    data = {"a": [1, 2.5, None], "b": "</script><!-- é"}
    assert unpacked(packed(data)) == data and "<" not in packed(data)


def test_stages(data):
    names = [s["name"] for s in data["stages"]]
    assert names[0] == "traced" and "decompose" in names
    for before, after in zip(data["stages"], data["stages"][1:], strict=False):
        kept = [o for o in after["origin"] if o >= 0]
        assert len(kept) == len(set(kept)) and len(after["origin"]) == len(after["op"])
        assert sorted(kept + after["removed"]) == list(range(len(before["op"])))
        assert all(after["origin"][n] >= 0 for n in after["rewired"])
        assert after["removed"] or after["rewired"] or -1 in after["origin"]
    for stage in data["stages"]:
        values = len(stage["inputs"])
        for args, results in zip(stage["args"], stage["results"], strict=True):
            assert all(0 <= a < values for a in args)
            values += len(results)
        assert all(0 <= v < values for v in stage["outputs"])


def test_parts_modules_and_lines(data):
    paths = {tuple(p) for p in data["scopes"]}
    assert {("forward", "Sequential", "0"), ("backward", "Sequential", "2")} <= paths
    assert ("update", "SGD.step", "Sequential.0.weight") in paths
    inputs = [name for name, _ in data["stages"][0]["inputs"]]
    assert {"x", "y", "lr", "Sequential.0.weight", "Sequential.2.bias"} <= set(inputs)
    (file,) = data["files"]
    assert file["path"].endswith("step_page.py")
    lines = {file["lines"][str(line)].strip() for _, line, _ in data["places"]}
    assert {"loss = nn.functional.cross_entropy(net(x), y)", "loss.backward()"} <= lines


def test_ops_are_explained(data):
    ops = {op["name"]: op for op in data["ops"]}
    assert ops["matmul"]["kind"] == "product" and ops["relu"]["kind"] == "pointwise" and ops["relu"]["doc"]
    assert any(op.get("constant") == "1.0" for op in data["ops"])


def test_execution(data, page):
    run = data["execution"]
    last = data["stages"][-1]
    code = block(page, "code")
    kinds = {s["kind"] for s in run["steps"]}
    assert {"kernel", "host"} <= kinds
    for step in run["steps"]:
        assert all(0 <= n < len(last["op"]) for n in step["nodes"])
        assert step["measured"] >= 0 and step["estimate"] >= 0
        for launch in step["launches"]:
            texts = code[launch["kernel"]]
            assert list(texts) == ["loops", "LLVM", "LLVM, optimised", "assembly"]
            assert texts["loops"].startswith(("kernel(", "TileKernel(")) and "define" in texts["LLVM"]
    computed = {n for s in run["steps"] for n in s["nodes"]}
    aliases = {int(v) for v in run["aliases"]}
    first = len(last["inputs"])
    for n, results in enumerate(last["results"]):  # each node is computed by a step, or is none's work
        constant = "constant" in data["ops"][last["op"][n]]
        assert n in computed or constant or first in aliases or data["ops"][last["op"][n]]["kind"] == "view"
        first += len(results)
    assert run["measured"]["call"] > 0 and run["measured"]["runs"] >= 3


def test_the_arena_holds_one_value_at_a_place(data):
    run = data["execution"]
    lives = run["arena"]["lives"]
    assert lives and all(at >= 0 and at + n <= run["arena"]["bytes"] for _, at, n, *_ in lives)
    assert all(0 <= first <= last < len(run["steps"]) for *_, first, last, _ in lives)
    for i, (_, at, n, first, last, _) in enumerate(lives):
        for _, at2, n2, first2, last2, over in lives[i + 1 :]:
            apart = at + n <= at2 or at2 + n2 <= at or last < first2 or last2 < first
            assert apart or (over >= 0 and first2 == last)


def test_graphs_alone_have_pages(tmp_path):
    f = jg.compile(lambda x: (x * 2).tanh())
    f(jg.ones(3))
    (folder,) = jg.dump.write(f.explain().specialisations[0].graph, tmp_path)
    found = block(folder / "index.html", "data")
    assert [s["name"] for s in found["stages"]] == ["captured"] and "execution" not in found
    assert sorted(p.name for p in folder.iterdir()) == ["00-captured.txt", "graph.dot", "graph.svg", "index.html"]


def test_functions_without_nodes(tmp_path):
    f = jg.compile(lambda x: x, dump=str(tmp_path))
    f(jg.ones(3))
    (page,) = tmp_path.glob("*/index.html")
    assert block(page, "data")["execution"]["steps"] == [] and block(page, "code") == []


CUDA = """
import sys
import jitgrad as jg
f = jg.compile(lambda x, w: (x @ w).softmax(1).sum(0))
f(jg.ones(4, 5, device="cuda"), jg.ones(5, 3, device="cuda"))
(folder,) = f.dump(sys.argv[1], measure=True)
print(folder)
"""


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_cuda_kernels_show_their_source(tmp_path):
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "JITGRAD_CUDA_SIMULATOR": "1"}
    command = [sys.executable, "-c", CUDA, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    (source,) = folder.glob("*-cuda.py")
    assert "cuda.threadIdx.x" in source.read_text()
    code = block(folder / "index.html", "code")
    assert code and all("cuda." in texts["CUDA source"] for texts in code)
    steps = block(folder / "index.html", "data")["execution"]["steps"]
    launches = [x for s in steps for x in s["launches"]]
    assert launches and all("threads" in x["geometry"] for x in launches)
    assert all(s["measured"] is None for s in steps)


def test_kernels_of_a_gpu_have_ptx():
    class Kernel:
        ptx, source = ".version 8", "def kernel(): ..."

    assert native_texts(Kernel()) == {"CUDA source": Kernel.source, "PTX": Kernel.ptx}
