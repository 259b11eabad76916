"""The models that are exported in one process and run in another."""

import jitgrad as jg
from jitgrad import nn
from jitgrad.nn import functional as F


class Cnn(nn.Module):
    """Two convolutions with normalisation and pooling, and a classifier."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.GELU(),
        )  # fmt: skip
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Cell(nn.Module):
    """One step of an LSTM (Hochreiter and Schmidhuber 1997), gates in PyTorch's order."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.x = nn.Linear(inputs, 4 * hidden)
        self.h = nn.Linear(hidden, 4 * hidden)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Lstm(nn.Module):
    """A language model over a fixed number of steps."""

    def __init__(self, words=20, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.cell = Cell(hidden, hidden)
        self.out = nn.Linear(hidden, words)
        self.hidden = hidden

    def forward(self, tokens):
        h = c = jg.zeros(tokens.shape[0], self.hidden)
        outputs = []
        for t in range(tokens.shape[1]):
            h, c = self.cell(self.embed(tokens[:, t]), h, c)
            outputs.append(self.out(h))
        return {"scores": jg.stack(outputs, 1), "state": (h, c)}


def train_step():
    """A step on an LSTM with dropout and AdamW."""
    model, drop = Lstm(), nn.Dropout(0.1)
    optimizer = jg.optim.AdamW(model.parameters(), lr=0.01)

    def step(tokens, targets):
        optimizer.zero_grad()
        scores = drop(model(tokens)["scores"])
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step
