"""The program that writes poems, on a few of them: its two runs agree, and its parts do what they say."""

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

import jitgrad as jg

for needed in ("matplotlib", "tqdm"):
    pytest.importorskip(needed)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "write_poems.py"
POEMS = [
    "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。",
    "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。",
    "白日依山盡，黃河入海流。欲窮千里目，更上一層樓。",
    "千山鳥飛絕，萬徑人蹤滅。孤舟蓑笠翁，獨釣寒江雪。",
    "空山不見人，但聞人語響。返景入深林，復照青苔上。",
    "紅豆生南國，春來發幾枝。願君多采擷，此物最相思。",
    "松下問童子，言師采藥去。只在此山中，雲深不知處。",
    "朝辭白帝彩雲間，千里江陵一日還。兩岸猿聲啼不住，輕舟已過萬重山。",
    "月落烏啼霜滿天，江楓漁火對愁眠。姑蘇城外寒山寺，夜半鐘聲到客船。",
    "故人西辭黃鶴樓，煙花三月下揚州。孤帆遠影碧空盡，唯見長江天際流。",
]


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE), run_name="example")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "poems.txt"
    path.write_text("\n\n".join(POEMS), encoding="utf-8")
    return path


@pytest.mark.parametrize("model", ["lstm", "gpt"])
def test_quick(example, model, text, tmp_path, capsys):
    eager, compiled = example["main"](["--quick", "--model", model, "--data", str(text), "--out", str(tmp_path)])
    assert len(eager.losses) == 8 and len(compiled.losses) == 30
    np.testing.assert_allclose(compiled.losses[:8], eager.losses, rtol=1e-5)  # sums in another order
    assert compiled.losses[-1] < compiled.losses[0] - 0.3
    assert list(compiled.validation) == [15, 30] and all(map(math.isfinite, compiled.validation.values()))
    printed = capsys.readouterr().out
    assert "held out" in printed and "times as fast" in printed and printed.count("temperature") == 3
    assert (tmp_path / f"{model}-loss.png").stat().st_size > 1000
    assert "temperature 1.1" in (tmp_path / f"{model}-poems.txt").read_text(encoding="utf-8")
    assert jg.load(tmp_path / f"{model}.safetensors").keys() == compiled.model.state_dict().keys()


def test_forms(example, tmp_path):
    assert all(map(example["is_regular"], POEMS))
    assert not any(map(example["is_regular"], ("", POEMS[0][:-6], POEMS[0][:-1], POEMS[0] + POEMS[7])))
    (tmp_path / "poet.tang.0.json").write_text(json.dumps([{"paragraphs": [POEMS[0]]}, {"paragraphs": ["無"]}]))
    assert example["read_poems"](tmp_path) == [POEMS[0]]
    fortunes = tmp_path / "tang300"
    lines = POEMS[1].replace("。", "。\n").strip()
    fortunes.write_text(f"\x1b[32m《春曉》\x1b[m\n\x1b[33m作者：孟浩然\x1b[m\n{lines}\n%\n", encoding="utf-8")
    assert example["read_poems"](fortunes) == [POEMS[1]]


def test_rows(example):
    """Rows to train on run on; in the others every character counts once, and the end of each poem."""
    corpus = example["make_corpus"](["abcdefg"] * 99 + ["hi"], vocabulary=20, context=4, seed=0)
    tokens, targets = (t.numpy() for t in corpus.validation.tensors)
    assert tokens.shape == targets.shape == (4, 4)
    assert (targets >= 0).sum() == 2 * (7 + 1) and (tokens[::2, 0] == 0).all()
    assert (corpus.training.tensors[1] >= 0).all()
    np.testing.assert_array_equal(corpus.training.tensors[0][0, 1:], corpus.training.tensors[1][0, :-1])


@pytest.mark.parametrize("model", ["lstm", "gpt"])
def test_going_on_from_a_state(example, model):
    corpus = example["make_corpus"](POEMS, vocabulary=60, context=12, seed=0)
    args = example["parse"](["--quick", "--model", model, "--dropout", "0"])
    jg.manual_seed(0)
    net = example["make_model"](args, corpus).eval()
    tokens = corpus.training.tensors[0][:3, :5]
    whole, _ = net(tokens)
    state, parts = None, []
    for t in range(5):
        logits, state = net(tokens[:, t : t + 1], state)
        parts.append(logits)
    np.testing.assert_allclose(jg.cat(parts, 1).detach(), whole.detach(), rtol=1e-4, atol=1e-5)
    assert all(poem.startswith("明月") for poem in example["write"](net, corpus, [0.5, 2.0], "明月"))


def test_without_data(example, tmp_path):
    with pytest.raises(SystemExit, match="npm install --prefix out/data chinese-poetry"):
        example["main"](["--data", str(tmp_path / "none"), "--out", str(tmp_path)])
