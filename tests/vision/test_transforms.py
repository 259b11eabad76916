"""Transforms: what they compute, on pictures and on tensors alike, what they draw, and what they refuse."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.utils.data import DataLoader, Dataset
from jitgrad.vision import make_grid, save_image, to_picture, transforms
from jitgrad.vision.transforms import functional as F
from jitgrad.vision.transforms.color import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation
from jitgrad.vision.transforms.drawing import uniform

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)
ARRAY = RNG.integers(0, 256, (37, 50, 3), dtype=np.uint8)
SMOOTH = (np.add.outer(np.arange(37) * 3, np.arange(50) * 2)[..., None] + np.array([0, 20, 40])).astype(np.uint8)


def picture(array=ARRAY):
    return Image.fromarray(array)


def tensor(array=ARRAY):
    return jg.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))


def as_array(image):
    return np.asarray(image) if not isinstance(image, jg.Tensor) else image.numpy().transpose(1, 2, 0)


BOTH = {
    "crop": lambda x: F.crop(x, 3, 4, 10, 12),
    "crop beyond": lambda x: F.crop(x, -3, 40, 50, 22),
    "crop far outside": lambda x: F.crop(x, -30, -5, 20, 12),
    "center": lambda x: F.center_crop(x, 21),
    "center of a small one": lambda x: F.center_crop(x, (61, 40)),
    "hflip": F.hflip,
    "vflip": F.vflip,
    "pad": lambda x: F.pad(x, [1, 2, 3, 4], 7),
    "pad in colours": lambda x: F.pad(x, 2, [1, 2, 3]),
    "pad by edges": lambda x: F.pad(x, [5, 6], padding_mode="edge"),
    "pad by reflection": lambda x: F.pad(x, 3, padding_mode="reflect"),
    "pad symmetrically": lambda x: F.pad(x, 3, padding_mode="symmetric"),
    "rotate": lambda x: F.rotate(x, 30),
    "rotate and expand": lambda x: F.rotate(x, 30, expand=True),
    "rotate around": lambda x: F.rotate(x, -20, center=(10, 12), fill=[9, 9, 9]),
    "affine": lambda x: F.affine(x, 20, (3, -4), 1.2, (10, 5)),
}


@pytest.mark.parametrize("name", BOTH)
def test_pictures_and_tensors_are_changed_alike(name):
    """But for single pixels where rounding decides between two neighbours."""
    of_picture, of_tensor = as_array(BOTH[name](picture())), as_array(BOTH[name](tensor()))
    assert of_picture.shape == of_tensor.shape
    assert (of_picture != of_tensor).mean() < 0.01


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(20, 70), 24])
def test_resizing_averages(mode, size):
    of_picture, of_tensor = (as_array(F.resize(make(SMOOTH), size, mode)).astype(int) for make in (picture, tensor))
    assert of_picture.shape == of_tensor.shape
    assert abs(of_picture - of_tensor).max() <= 1  # Pillow rounds between its two passes


@pytest.mark.parametrize("change", [adjust_brightness, adjust_contrast, adjust_saturation])
@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.7])
def test_colours_are_changed_alike(change, factor):
    of_picture, of_tensor = (as_array(change(x, factor)).astype(int) for x in (picture(), tensor()))
    assert abs(of_picture - of_tensor).max() <= 2  # grey values are rounded in other places


def test_hue():
    red = jg.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
    np.testing.assert_allclose(adjust_hue(red, 1 / 3).flatten().tolist(), [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(adjust_hue(red, -1 / 3).flatten().tolist(), [0, 0, 1], atol=1e-6)
    image = tensor(SMOOTH).float() / 255
    np.testing.assert_allclose(adjust_hue(image, 0.0).numpy(), image.numpy(), atol=1e-6)
    distance = abs(as_array(adjust_hue(picture(SMOOTH), 0.2)).astype(int) - as_array(adjust_hue(tensor(SMOOTH), 0.2)))
    assert distance.mean() < 2  # Pillow's hue has 256 steps


def test_there_and_back():
    assert (F.to_tensor(picture()).numpy() == tensor().numpy().astype(np.float32) / np.float32(255)).all()
    assert (F.pil_to_tensor(picture()) == tensor()).all()
    assert (as_array(to_picture(tensor())) == ARRAY).all()
    assert (as_array(to_picture(F.to_tensor(picture()))) == ARRAY).all()
    grey = picture().convert("L")
    assert F.to_tensor(grey).shape == (1, 37, 50) and to_picture(F.to_tensor(grey)).mode == "L"
    assert F.to_tensor(np.ones((4, 5))).dtype is jg.float64
    both = F.convert_image_dtype(F.convert_image_dtype(tensor(), jg.float32), jg.uint8)
    assert (both == tensor()).all()


def test_normalize():
    x = tensor().float()
    mean, std = [1.0, 2.0, 3.0], [2.0, 4.0, 8.0]
    expected = (x.numpy() - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(transforms.Normalize(mean, std)(x).numpy(), expected, rtol=1e-6)
    y = x.clone()
    assert transforms.Normalize(mean, std, inplace=True)(y) is y
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    z = x.clone().requires_grad_()
    transforms.Normalize(mean, std)(z).sum().backward()
    assert z.grad[:, 0, 0].tolist() == [0.5, 0.25, 0.125]


def test_draws_are_those_of_the_generator():
    jg.manual_seed(3)
    ours = [uniform() for _ in range(300)]
    jg.manual_seed(3)
    assert ours == [jg.rand(()).item() for _ in range(300)]
    state = jg.get_rng_state()
    first = [uniform(), jg.rand(()).item(), uniform()]
    jg.set_rng_state(state)
    assert [jg.rand(()).item(), uniform(), jg.rand(()).item()] == first


RANDOM = {
    "crop": transforms.RandomCrop(30),
    "padded crop": transforms.RandomCrop((40, 50), padding=4),
    "crop of a small one": transforms.RandomCrop(60, pad_if_needed=True, padding_mode="edge"),
    "flips": transforms.Compose([transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip()]),
    "resized crop": transforms.RandomResizedCrop(16),
    "rotation": transforms.RandomRotation(20),
    "affine": transforms.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), (5, 10, -5, 5)),
    "jitter": transforms.ColorJitter(0.4, 0.4, 0.4, 0.2),
    "choice": transforms.RandomChoice([transforms.Grayscale(3), transforms.CenterCrop(9)], p=[1, 3]),
    "order": transforms.RandomOrder([transforms.CenterCrop(30), transforms.Resize(20), transforms.Pad(1)]),
    "apply": transforms.RandomApply([transforms.CenterCrop(12)]),
    "grey": transforms.RandomGrayscale(0.5),
}


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("make", [picture, tensor])
def test_what_is_drawn_follows_the_seed(name, make):
    def draw(seed):
        jg.manual_seed(seed)
        return [as_array(RANDOM[name](make())) for _ in range(8)]

    first, again, other = draw(1), draw(1), draw(2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_implied_padding_is_padding():
    for make in (picture, tensor):
        for padding in (3, (1, 2), (1, 2, 3, 4)):
            jg.manual_seed(5)
            implied = [as_array(transforms.RandomCrop(38, padding=padding)(make())) for _ in range(5)]
            jg.manual_seed(5)
            made = [as_array(transforms.RandomCrop(38)(F.pad(make(), padding))) for _ in range(5)]
            assert all(np.array_equal(a, b) for a, b in zip(implied, made, strict=True))


def test_erasing():
    jg.manual_seed(0)
    x = jg.ones(3, 20, 30)
    y = transforms.RandomErasing(p=1.0)(x)
    share = (y == 0).float().mean().item()
    assert 0.01 < share < 0.35 and (x == 1).all()
    assert transforms.RandomErasing(p=0.0)(x) is x
    noisy = transforms.RandomErasing(p=1.0, value="random")(x)
    assert ((noisy != 1).float().mean() > 0).item()
    colours = transforms.RandomErasing(p=1.0, value=[2.0, 3.0, 4.0], inplace=True)(x)
    assert colours is x and x.amax((1, 2)).tolist() == [2, 3, 4]


class Drawn(Dataset):
    def __init__(self):
        self.change = transforms.Compose([transforms.RandomCrop(8), transforms.RandomHorizontalFlip()])

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return self.change(tensor())


def test_workers_draw_by_their_seeds():
    def load():
        loader = DataLoader(Drawn(), 3, num_workers=2, generator=jg.Generator().manual_seed(1))
        return [batch.numpy() for batch in loader]

    first, again = load(), load()
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], first[1])


def test_errors():
    with pytest.raises(ValueError, match=r"crop size \(60, 60\) is larger than input image size \(37, 50\)"):
        transforms.RandomCrop(60)(tensor())
    with pytest.raises(TypeError, match="float tensor"):
        transforms.Normalize([0.5], [0.5])(tensor())
    with pytest.raises(ValueError, match="division by zero"):
        transforms.Normalize([0.5], [0.0])(tensor().float())
    with pytest.raises(ValueError, match=r"not in \[-0.5, 0.5\]"):
        adjust_hue(picture(), 0.7)
    with pytest.raises(ValueError, match="must be positive"):
        transforms.RandomRotation(-5)
    with pytest.raises(ValueError, match="constant, edge, reflect or symmetric"):
        F.pad(tensor(), 2, padding_mode="around")
    with pytest.raises(TypeError, match="expected a picture or an array, not list"):
        transforms.ToTensor()([1])
    with pytest.raises(ValueError, match="strictly greater"):
        transforms.Resize(24, max_size=20)(tensor())


def test_grids(tmp_path):
    images = jg.arange(5 * 6.0).reshape(5, 1, 2, 3) / 30
    grid = make_grid(images, nrow=3, padding=1, pad_value=0.5)
    assert grid.shape == (3, 7, 13) and grid[0, 0, 0].item() == 0.5
    assert (grid[1, 1:3, 5:8] == images[1, 0]).all() and (grid[:, 4:6, 9:12] == 0.5).all()
    assert make_grid(list(images), normalize=True).amax().item() == 1
    save_image(images, tmp_path / "grid.png", nrow=5)
    with Image.open(tmp_path / "grid.png") as saved:
        assert saved.size == (5 * 5 + 2, 6)
