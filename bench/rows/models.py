"""Models in PyTorch's API, for whichever framework offers it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any


def perceptron(nn: Any, widths: tuple[int, ...], activation: Callable[[], Any]) -> Any:
    """Linear layers with an activation between."""
    layers: list[Any] = []
    for n, m in pairwise(widths):
        layers += [nn.Linear(n, m), activation()]
    return nn.Sequential(*layers[:-1])


def resnet20(nn: Any, functional: Any) -> Any:
    """He et al. 2015 (arXiv:1512.03385), section 4.2, with 1x1 convolutions where the width changes."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(width)
            self.shortcut = nn.Identity() if before == width else nn.Conv2d(before, width, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norm1(self.conv1(x)))
            return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    blocks, before = [], 16
    for width in (16, 32, 64):
        for i in range(3):
            blocks.append(Block(before, width, 2 if i == 0 and width > 16 else 1))
            before = width
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class GPT:
    """A decoder-only transformer with learned positions."""

    @staticmethod
    def of(m: Any) -> Callable[[int, int, int, int, int], Any]:
        """The class, made of `m`'s modules: (vocabulary, length, width, heads, layers)."""
        nn, functional = m.nn, m.nn.functional

        class Block(nn.Module):  # type: ignore[misc]
            def __init__(self, width: int, heads: int) -> None:
                super().__init__()
                self.heads = heads
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x: Any) -> Any:
                b, t, c = x.shape
                parts = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
                y = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
                return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

        class Model(nn.Module):  # type: ignore[misc]
            def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
                super().__init__()
                self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
                self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
                self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

            def forward(self, x: Any) -> Any:
                places = self.places(m.arange(x.shape[1]))
                return self.head(self.norm(self.blocks(self.tokens(x) + places)))

        return Model


class CharacterLSTM:
    """Embedding, LSTM, linear."""

    @staticmethod
    def of(m: Any) -> Callable[[int, int, int], Any]:
        """The class, made of `m`'s modules: (vocabulary, embedding, width)."""
        nn = m.nn

        class Model(nn.Module):  # type: ignore[misc]
            def __init__(self, vocabulary: int, embedding: int, width: int) -> None:
                super().__init__()
                self.tokens = nn.Embedding(vocabulary, embedding)
                self.lstm = nn.LSTM(embedding, width, batch_first=True)
                self.head = nn.Linear(width, vocabulary)

            def forward(self, x: Any) -> Any:
                return self.head(self.lstm(self.tokens(x))[0])

        return Model
