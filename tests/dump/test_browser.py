"""The page in a browser, where one is installed: it draws itself, and keys, clicks and words lead through it."""

import pytest
from dump.chromium import PROGRAM, Browser
from dump.step_page import block, write_page

import jitgrad as jg

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("dumps"))


@pytest.fixture(scope="module")
def data(page):
    return block(page, "data")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def browser(running, page):
    running.errors.clear()
    running.open(page)
    yield running
    assert not running.errors


def text(browser, element):
    return browser.run(f"document.getElementById({element!r}).innerText")


def node(data, name, stage=-1):
    """The first node of this name on a stage."""
    return next(n for n, o in enumerate(data["stages"][stage]["op"]) if data["ops"][o]["name"] == name)


def place(browser, box):
    """The middle of a box's title on the screen."""
    return browser.run(f"""(() => {{
      const b = {box}, v = app.graph.view, r = app.graph.canvas.getBoundingClientRect();
      return [r.x + v.x + v.k * (b.x + b.w / 2), r.y + v.y + v.k * (b.y + Math.min(b.h / 2, 12))];
    }})()""")


def test_it_draws_itself(browser, data):
    assert browser.run("app.builder.ofScope.size") > 3 and browser.run("app.graph.drawn") > 3
    figures = text(browser, "figures")
    assert f"{len(data['stages'][0]['op'])} nodes captured" in figures and "a call" in figures
    colors = browser.run("""(() => {
      const c = document.getElementById("canvas");
      return new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)).size;
    })()""")
    assert colors > 20  # the boxes' colours, and the edges of letters


STATES = ("stage=0&color=kind", "view=text&stage=1&color=change", "open=all&color=cost", "view=memory", "constants=1")


@pytest.mark.parametrize("state", STATES)
def test_states_in_the_address(running, page, state):
    running.errors.clear()
    running.open(page, state)
    assert not running.errors


def test_what_is_selected_is_explained(browser, data):
    browser.run(f"app.select({{ kind: 'node', n: {node(data, 'relu')} }}, true)")
    browser.run("page.code")
    browser.settle()
    shown = text(browser, "details")
    assert "relu" in shown and "step_page.py:" in shown and "loss = nn.functional.cross_entropy(net(x), y)" in shown
    assert "kernel(b0" in shown and "f32[5,8]" in shown and "measured" in shown
    for level, sign in (("LLVM", "define void"), ("assembly", "ret")):
        browser.run(f"document.querySelector('[data-go=\"level:{level}\"]').click()")
        browser.settle()
        assert sign in text(browser, "details")
    assert "relu" in text(browser, "said")


def test_clicks_fold_and_unfold(browser):
    browser.run("app.foldAll(false)")
    browser.settle()
    x, y = place(browser, "app.builder.ofScope.get('forward')")
    browser.click(x, y)
    assert "part of the step" in text(browser, "details") and not browser.run("app.expanded.has('forward')")
    browser.click(x, y, count=2)
    assert browser.run("app.expanded.has('forward')")
    x, y = place(browser, "app.builder.ofScope.get('forward')")
    browser.move(x, y)
    assert "forward" in text(browser, "hint")


def test_keys(browser):
    last = browser.run("page.data.stages.length - 1")
    browser.run("document.getElementById('canvas').focus()")
    browser.press("[")
    assert browser.run("app.index") == last - 1
    browser.press("]")
    assert browser.run("app.index") == last
    for key, view in zip("1234", ("graph", "steps", "memory", "text"), strict=True):
        browser.press(key)
        assert browser.run("app.view") == view
    browser.press("1", "Escape", "f", "ArrowDown")
    assert browser.run("app.selection.id") == "forward"
    browser.press("Enter", "ArrowRight")
    assert browser.run("app.expanded.has('forward')") and browser.run("app.selection.id") == "backward"
    browser.press("e")
    assert browser.run("app.expanded.size") > 2
    browser.press("c", "c")
    assert browser.run("app.color") == "change"
    theme = browser.run("document.documentElement.dataset.theme")
    browser.press("t")
    assert browser.run("document.documentElement.dataset.theme") != theme
    browser.press("?")
    assert browser.run("document.getElementById('help').open") and "fold or unfold" in text(browser, "help")
    browser.press("Escape")
    assert not browser.run("document.getElementById('help').open")


def test_arrows_follow_the_values(browser, data):
    n = node(data, "relu")
    browser.run(f"app.select({{ kind: 'node', n: {n} }}, true)")
    browser.run("document.getElementById('canvas').focus()")
    browser.press("ArrowUp")
    assert browser.run("app.selection.kind") == "scope"  # nothing leads to it inside its module
    browser.press("ArrowUp", "Enter")
    assert browser.run("app.selection.id") == "forward/Sequential/0"


def test_search(browser, data):
    browser.press("/")
    browser.type("relu forward")
    assert browser.run("app.search.results.length") >= 1 and "relu" in text(browser, "found")
    browser.press("Enter")
    browser.settle()
    assert (
        browser.run("app.selection.kind") in ("node", "scope") and browser.run("document.activeElement.id") == "canvas"
    )
    browser.press("/")
    browser.run("document.getElementById('search').value = ''")
    browser.type("no such thing")
    assert text(browser, "found").strip() == "nothing"
    browser.press("Escape")
    assert browser.run("document.getElementById('found').hidden")


def test_stages_follow_a_node(browser, data):
    n = node(data, "relu")
    browser.run(f"app.select({{ kind: 'node', n: {n} }})")
    for k in range(len(data["stages"]) - 2, -1, -1):
        browser.press("[")
        assert browser.run("app.index") == k
        chosen = browser.run("app.selection")
        assert data["ops"][data["stages"][k]["op"][chosen["n"]]]["name"] == "relu"


def test_what_a_pass_did(browser, data):
    k = next(k for k, s in enumerate(data["stages"]) if s["name"] == "decompose")
    browser.run(f"app.setStage({k})")
    browser.run("app.select(null)")
    shown = text(browser, "details").lower()
    assert "what decompose did" in shown and "−1 cross_entropy" in shown and "exp" in shown


def test_the_table_of_steps(browser, data):
    browser.press("2")
    steps = data["execution"]["steps"]
    assert browser.run("document.querySelectorAll('tr[data-step]').length") == len(steps)
    browser.run("document.querySelector('th[data-by=time]').click()")
    first = browser.run("Number(document.querySelector('tr[data-step]').dataset.step)")
    assert steps[first]["measured"] == max(s["measured"] for s in steps)
    browser.run("document.querySelector('tr[data-step]').click()")
    assert f"Step {first}" in text(browser, "details")
    browser.press("1")
    dimmed = browser.run(
        "[...app.builder.ofNode.values(), ...app.builder.ofScope.values()].filter((b) => app.dims(b)).length"
    )
    assert dimmed > 0


def test_the_arena(browser, data):
    browser.press("3")
    assert f"for {len(data['execution']['arena']['lives'])} values" in text(browser, "memory-text")
    browser.run("document.getElementById('memory').focus()")
    browser.press("ArrowRight")
    assert browser.run("app.selection") is not None
    most = browser.run("Math.max(...app.memory.alive())")
    assert 0 < most <= data["execution"]["arena"]["bytes"]


def test_text_has_the_lines_in_sight_alone(browser, data):
    browser.press("4")
    lines = browser.run("document.querySelectorAll('#text-view .ln').length")
    assert 10 < lines <= 120
    shown = text(browser, "text-view")
    assert "graph training_step_step(" in shown and "%12 = " in shown and "return" not in shown
    browser.run("document.querySelector('#text-view .ln[data-node=\"3\"]').click()")
    assert browser.run("app.selection.n") == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes(running, page, theme, tmp_path):
    running.open(page, f"theme={theme}")
    picture = pytest.importorskip("PIL.Image").open(running.picture(tmp_path / "page.png")).convert("RGB")
    assert picture.size == (1280, 800)
    brightness = sum(picture.getpixel((2, 20))) / 3
    assert brightness > 200 if theme == "light" else brightness < 60


def test_boxes_of_a_scope_do_not_overlap(browser):
    browser.run("app.foldAll(true)")
    assert browser.run("""(() => {
      const before = (a, b) => a.x + a.w <= b.x + .01 || a.y + a.h <= b.y + .01;
      const apart = (a, b) => before(a, b) || before(b, a);
      const inside = (a, b) => b.x >= a.x - .01 && b.y >= a.y - .01
        && b.x + b.w <= a.x + a.w + .01 && b.y + b.h <= a.y + a.h + .01;
      const good = (box) => box.children.every((c, i) => inside(box, c) && good(c)
        && box.children.slice(i + 1).every((d) => apart(c, d)));
      return good(app.graph.root);
    })()""")


def test_a_module_that_holds_everything_is_unfolded(running, tmp_path):
    class Long(jg.nn.Module):
        def forward(self, x):
            for op in (jg.sin, jg.cos, jg.tanh, jg.exp, jg.sigmoid, jg.atan) * 2:
                x = op(x) * x.mean() - x
            return x

    layer = Long()
    jg.compile(lambda x: layer(x), dump=str(tmp_path))(jg.ones(3, 2, 8))
    (made,) = tmp_path.glob("*/index.html")
    running.errors.clear()
    running.open(made)
    assert running.run("app.stage.root.children.size === 1 && app.stage.size > FEW && app.graph.drawn") > 20
    assert not running.errors
