"""`nn.functional` against PyTorch's: values, dtypes, gradients and errors, on arguments that layers rarely have."""

import pytest
from torch_oracle import check

pytestmark = pytest.mark.torch

ACTIVATIONS = """
F.celu(x, 0.7); F.selu(x); F.glu(x, 2); F.hardshrink(x, 0.3); F.softshrink(x, 0.3); F.softsign(x); F.tanhshrink(x)
F.prelu(x, L.tensor([0.1, 0.2, 0.3], dtype=L.float64)); F.prelu(s, L.tensor([0.5], dtype=L.float64)); F.rrelu(x)
F.threshold(x, 0.1, 20.0); F.threshold(n, 5, 7); F.relu6(n - 5); F.hardtanh(n - 5, -2, 3); F.silu(L.complex(f, -f))
F.hardshrink(L.tensor([float("nan"), 0.0])); F.softshrink(L.tensor([float("nan"), 2.0])); F.softmin(x, 1)
F.relu(f > 3); F.hardtanh(f > 3); F.elu(n); F.gelu(n); F.celu(x, 0.0); F.softshrink(x, -1.0); F.glu(x, 1); F.glu(s)
F.prelu(x, L.zeros(2, dtype=L.float64)); F.prelu(x, L.zeros(3)); F.rrelu(x, 0.5, 0.1); F.hardtanh(x, 2.0, 1.0)
F.gelu(x, approximate="exact")
"""
PADDING = """
F.pad(x, (1, 2)); F.pad(x, (-1, 2, 0, -1)); F.pad(x, (0, 1), value=3.5); F.pad(x, (1, 3), "reflect")
F.pad(x, (2, 1), mode="replicate"); F.pad(x, (4, 1), mode="circular"); F.pad(x, (-1, 2), mode="circular")
F.pad(x, (2, -1), mode="reflect"); F.pad(x, (1, 1, 2, 2), mode="reflect"); F.pad(n, (1, 0), mode="replicate")
F.pad(mask, (1, 1), value=True); F.pad(x, (1,)); F.pad(x, (9, 0), mode="reflect"); F.pad(x, (1, 1), mode="edge")
F.pad(x, (9, 9), mode="circular"); F.pad(v, (1, 1), mode="reflect"); F.pad(x, (-3, -3))
F.pad(x, (1, 1), "reflect", 2.0)
L.constant_pad_nd(x, (1, 1, 1), 2); L.constant_pad_nd(n, (1, 1), 2)
"""
REARRANGING = """
F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2); F.pixel_unshuffle(x.reshape(1, 4, 6), 2); F.channel_shuffle(x, 3)
F.unfold(x.reshape(2, 3, 2, 2), 2, padding=1); F.unfold(x.reshape(1, 4, 6), (2, 3), stride=2, dilation=(1, 2))
F.fold(x.reshape(1, 4, 6), (3, 4), 2); F.fold(x.reshape(2, 4, 3), (2, 6), 2, stride=2); F.fold(m, (2, 2), 2)
F.pixel_shuffle(x, 2); F.pixel_unshuffle(x, 3); F.pixel_shuffle(v, 1); F.channel_shuffle(x, 2); F.unfold(x, 9)
"""
DISTANCES = """
F.pairwise_distance(m, m.flip(0)); F.pairwise_distance(m, v[:3], p=1, keepdim=True); F.pdist(m); F.pdist(m, 1)
F.pdist(m, float("inf")); F.pdist(L.cat([m, m])); F.pdist(m[:1]); F.cosine_similarity(m, m * 2 + 1)
F.cosine_similarity(x, x[:1], 2); F.cosine_similarity(m * 0, m); F.normalize(x, 1, (0, 1)); F.normalize(m * 0)
F.cosine_similarity(n, n); F.pdist(x); F.pdist(m, -1)
"""
LOSSES = """
F.hinge_embedding_loss(v, L.tensor([1, -1, 1, -1, 1]), 0.3, reduction="none")
F.soft_margin_loss(v, v.detach().sign())
F.margin_ranking_loss(v, v.flip(0), v.sign().detach(), 0.2); F.margin_ranking_loss(v, m, v)
F.cosine_embedding_loss(m, m.flip(0), L.tensor([1, -1, 1]), 0.1); F.cosine_embedding_loss(m, m, m)
F.multi_margin_loss(m, L.tensor([0, 2, 1]), p=2, weight=v[:3].detach().abs()); F.multi_margin_loss(v, L.tensor(3))
F.multi_margin_loss(m, L.tensor([0, 3, 1])); F.multi_margin_loss(m, L.tensor([0, 1]))
F.multi_margin_loss(m, k, p=3)
F.multilabel_margin_loss(m, L.tensor([[2, 0, -1], [-1, 0, 1], [0, 0, 1]]))
F.multilabel_margin_loss(m, m.long() + 7)
F.multilabel_margin_loss(v, L.tensor([1, 4, -1, 0, 2])); F.multilabel_soft_margin_loss(m, m.sigmoid(), v[:3])
F.triplet_margin_loss(m, m.flip(0), m.t(), 2.0, swap=True); F.triplet_margin_loss(m, m, m, -1.0)
F.triplet_margin_with_distance_loss(m, m.flip(0), m.t(), distance_function=lambda a, b: (a - b).abs().sum(1))
F.gaussian_nll_loss(v, v.flip(0), v.abs(), full=True); F.gaussian_nll_loss(x, x.flip(0), x[..., 0].abs())
F.gaussian_nll_loss(v, v, 0.5); F.gaussian_nll_loss(v, v, -v.abs()); F.gaussian_nll_loss(x, x, v.abs())
F.poisson_nll_loss(v, v.abs() * 3, full=True); F.poisson_nll_loss(v.abs(), v.abs(), log_input=False)
F.linear_cross_entropy(m, L.cat([m, m]), L.tensor([0, 5, 2]), label_smoothing=0.1)
F.binary_cross_entropy(v.sigmoid(), v.flip(0).sigmoid()); F.binary_cross_entropy(v * 9, v.abs() * 0)
F.binary_cross_entropy(v.sigmoid(), m); F.mse_loss(v, v, reduction="median"); F.l1_loss(v, v * 2, reduce=False)
F.kl_div(v, v.exp(), reduction="sum", size_average=False); F.nll_loss(m, L.tensor([0, 1, 5]))
F.cross_entropy(x, x.softmax(1), weight=v[:3].abs(), label_smoothing=0.2); F.cross_entropy(v, L.tensor(2))
L.kl_div(v, v.exp(), 2); L.binary_cross_entropy_with_logits(v, v.sigmoid(), None, v.detach().exp(), 1)
"""
NORMALISATION = """
F.group_norm(x, 3); F.group_norm(x, 1, v[:3], m[0]); F.instance_norm(x, weight=v[:3]); F.instance_norm(x[..., :1])
F.local_response_norm(x, 2, 0.1, 0.5, 2.0); F.local_response_norm(m, 2); F.group_norm(x, 2); F.group_norm(v, 1)
L.view_as_real(F.rms_norm(L.complex(x, x.flip(0)), (4,))); F.batch_norm(z, None, None, training=True)
F.layer_norm(x, (3,))
F.instance_norm(x, L.zeros(3, dtype=L.float64), L.ones(3, dtype=L.float64), use_input_stats=False)
F.instance_norm(x, use_input_stats=False); L.batch_norm(x, None, None, None, None, True, 0.1, 1e-3, False)
L.group_norm(x, 3, None, None, 1e-5); L.layer_norm(x, (4,))
L.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
"""
CONVOLUTIONS = """
F.conv1d(x, m.reshape(3, 3, 1)); F.conv1d(n, n[:, :, :2].reshape(4, 3, 1)); F.conv1d(x, L.ones(1, 3, 2))
F.conv1d(v, v)
L.view_as_real(F.conv1d(L.complex(x, x), L.complex(m, -m).reshape(3, 3, 1), padding="same"))
F.conv1d(x, m.reshape(3, 3, 1), v)
F.conv_transpose1d(x, m.reshape(3, 1, 3), stride=2, padding=2, output_padding=2, dilation=3)
F.conv_transpose1d(n, n[:, :, :3].reshape(3, 2, 3), stride=3)
F.conv_transpose1d(x, m.reshape(3, 1, 3), output_padding=1)
F.conv1d(x, m.reshape(3, 3, 1), stride=0); F.conv1d(x, m.reshape(3, 3, 1), padding=-1)
F.conv2d(x, x.reshape(1, 2, 3, 4))
L.conv_tbc(x, m.reshape(1, 3, 3).repeat(1, 2, 1)[:, :4, :2], v[:2])
L.convolution(x, m.reshape(3, 3, 1), None, [1], [0], [1], True, [0], 1)
"""
POOLING = """
F.max_pool1d(x, 2, return_indices=True); F.max_pool1d(x, 3, 1, 1, return_indices=True)
F.adaptive_max_pool1d(x, 3, True)
F.max_pool2d(x.reshape(2, 3, 2, 2), 2, 1, 1, ceil_mode=True, return_indices=True); F.adaptive_avg_pool1d(x, 3)
F.adaptive_max_pool2d(x.reshape(1, 4, 6), (3, 4), return_indices=True)
F.adaptive_avg_pool2d(x.reshape(1, 4, 6), (3, None))
F.adaptive_max_pool3d(x.reshape(1, 2, 3, 4), (2, 2, 3)); F.avg_pool1d(n - 12, 3, 2, 1); F.lp_pool1d(x, 3, 2)
F.avg_pool2d(n - 12, 2, divisor_override=3); F.avg_pool2d(n - 12, 2, divisor_override=-3)
F.lp_pool2d(x.abs(), 2.5, 2)
F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2); F.max_unpool1d(x, n, 2)
F.max_unpool1d(x, n * 0 - 1, 2)
F.max_unpool2d(*F.max_pool2d(x, 2, 1, return_indices=True), 2, 1, output_size=(3, 4))
F.avg_pool2d(x, 2, divisor_override=0)
F.max_unpool1d(x, n % 4, 2, output_size=(99,)); F.max_pool1d(x, 0); F.max_pool1d(x, 2, padding=2)
F.avg_pool1d(v, 2)
F.max_pool2d(z, 2); F.adaptive_avg_pool2d(v, (2, 2)); F.adaptive_avg_pool1d(x, -1); F.adaptive_max_pool1d(n, 2)
F.fractional_max_pool2d(x, 2, output_size=(2, 3), _random_samples=L.tensor([[[0.1, 0.7], [0.5, 0.3]]], dtype=L.float64))
F.fractional_max_pool2d(x, 2, output_size=9); F.fractional_max_pool2d(x, 2); L.adaptive_max_pool1d(x, 2)
L.max_pool1d(x, 2)
F.max_pool1d(L.tensor([[float("nan"), 1.0, float("-inf"), float("-inf")]]), 2, return_indices=True)
F.adaptive_avg_pool1d(L.tensor([[float("inf"), 1.0, 2.0]]), 2)
"""
RESIZING = """
F.interpolate(x, 7); F.interpolate(x, 3, mode="nearest-exact"); F.interpolate(f[None], scale_factor=1.6)
F.interpolate(x, 3, mode="area")
F.interpolate(x, scale_factor=1.7, mode="linear"); F.interpolate(x, 6, mode="linear", align_corners=True)
F.interpolate(x, scale_factor=1.7, mode="linear", recompute_scale_factor=True); F.interpolate(x, 1, mode="linear")
F.interpolate(x[None], (5, 3), mode="bilinear"); F.interpolate(x[None], scale_factor=(2, 0.5), mode="bicubic")
F.interpolate(x[None], (2, 2), mode="bilinear", antialias=True)
F.interpolate(x[None], (7, 3), mode="bicubic", antialias=True)
F.interpolate(x[None, None], (3, 2, 5), mode="trilinear", align_corners=True); F.upsample_nearest(x, scale_factor=2)
F.upsample_bilinear(x[None], scale_factor=2); F.interpolate(f[None].to(L.uint8), 7)
F.interpolate(x, 3, scale_factor=2)
F.interpolate(x, (3, 3)); F.interpolate(x, mode="linear"); F.interpolate(v, 3); F.interpolate(x, 3, mode="bilinear")
F.interpolate(x, 0); F.interpolate(x, 3, align_corners=True); F.interpolate(x, 3, mode="linear", antialias=True)
F.interpolate(n, 3, mode="linear"); F.interpolate(x, 3, mode="cubic")
F.interpolate(x, 3, recompute_scale_factor=True)
"""
SAMPLING = """
F.grid_sample(x[None], m[None, None, :, :2], align_corners=False)
F.grid_sample(x[None], m[None, None, :, :2] * 3, "nearest", "border", True)
F.grid_sample(x[None], m[None, None, :, :2] * 3, "bicubic", "reflection", False)
F.grid_sample(x[None, None], m[None, None, None], align_corners=True)
F.grid_sample(x[None, None], m[None, None, None] * 2, padding_mode="reflection", align_corners=False)
F.grid_sample(x[None, None], m[None, None, None] * 2, "nearest", align_corners=False)
L.grid_sampler_2d(x[None], m[None, None, :, :2], 0, 1, False)
F.affine_grid(m[None, :2], (1, 1, 2, 3), align_corners=False)
F.affine_grid(x[:, :, :], (2, 1, 2, 1, 3), align_corners=True)
F.grid_sample(x, m); F.grid_sample(x[None], m[None, None], align_corners=False)
F.grid_sample(x[None], m[None, None, :, :2], "cubic")
F.grid_sample(x[None, None], m[None, None, None], "bicubic", align_corners=False); F.affine_grid(m, (1, 1, 2, 2))
F.affine_grid(x, (2, 1, 3))
F.grid_sample(x[None], m[None, None, :, :2].float(), align_corners=False)
F.grid_sample(x[None], m[None, None, :, :2], padding_mode="mirror")
"""
TABLES = """
F.embedding(k, m); F.embedding(k, m, padding_idx=2); F.embedding(k, m, scale_grad_by_freq=True)
F.embedding(k, m, padding_idx=3)
F.embedding(k, m.detach() * 4, max_norm=1.0); F.embedding(k.int(), m); F.embedding(k.float(), m)
F.embedding(k + 2, m)
F.embedding_bag(k, m, L.tensor([0, 1, 1, 3]))
F.embedding_bag(k, m, L.tensor([0, 2]), mode="sum", per_sample_weights=v[:4])
F.embedding_bag(k, m, L.tensor([0, 2, 4]), mode="max", include_last_offset=True)
F.embedding_bag(k[None], m, mode="max")
F.embedding_bag(k.reshape(2, 2), m, padding_idx=2)
F.embedding_bag(k, m, L.tensor([0, 2]), padding_idx=0, mode="max")
F.embedding_bag(k, m, L.tensor([0, 3]), padding_idx=0, mode="mean", scale_grad_by_freq=True); F.embedding_bag(k, m)
F.embedding_bag(k[None], m, L.tensor([0])); F.embedding_bag(k[None], m, mode="min")
F.embedding_bag(k, m, L.tensor([1, 2]))
F.embedding_bag(k[None], m, per_sample_weights=v[:4])
F.embedding_bag(k[None], m, mode="max", per_sample_weights=v[None, :4])
F.one_hot(k); F.one_hot(k, 5); F.one_hot(k, 2); F.one_hot(k - 1, 3); F.one_hot(k.int()); F.one_hot(k[:0])
F.one_hot(k[:0], 3)
L.embedding(m, k); F.bilinear(m, m, L.ones(2, 3, 3, dtype=L.float64)); F.linear(m, v[:3]); F.linear(m, m, v)
"""
ATTENTION = """
F.scaled_dot_product_attention(x, x, x); F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3)
F.scaled_dot_product_attention(m, m, m, mask[:1].expand(3, 3)); F.scaled_dot_product_attention(m, m, m, m)
F.scaled_dot_product_attention(m, m, m, L.zeros(3, 3).bool()); F.scaled_dot_product_attention(x, x[:1], x[:1])
F.scaled_dot_product_attention(L.cat([x, x])[None], x[None], x[None], enable_gqa=True)
F.scaled_dot_product_attention(m, m, v)
F.scaled_dot_product_attention(x, x, x, x, is_causal=True); F.scaled_dot_product_attention(m, m.float(), m)
F.scaled_dot_product_attention(m, m, m, k[:3]); F.scaled_dot_product_attention(m, m[:, :2], m)
"""
GROUPS = (
    ACTIVATIONS, PADDING, REARRANGING, DISTANCES, LOSSES, NORMALISATION, CONVOLUTIONS, POOLING, RESIZING, SAMPLING,
    TABLES, ATTENTION,
)  # fmt: skip
PROGRAMS = [p.strip() for text in GROUPS for line in text.strip().splitlines() for p in line.split("; ")]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_program(program):
    check(f"F = L.nn.functional; {program}")
