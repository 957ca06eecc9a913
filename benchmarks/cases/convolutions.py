"""Single convolutions, channels last: windows times filters, in one and two dimensions, with strides, gaps and groups.

Of the result the weighted sum is taken, forward alone, and with gradients by filters and images. A whole network is
`convolution`.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from cases.model import Model, cases

PLACES, WITHIN = "rst", "ijk"


@dataclass(frozen=True)
class Convolution:
    """A convolution of images x[image, *place, channel] with filters W[*place, channel of its group, filter]."""

    stride: int = 1
    dilation: int = 1
    groups: int = 1

    def loss(self, xp, W, x, weights):
        return xp.sum(self.windows_times_filters(W, x) * weights)

    def windows_times_filters(self, W, x):
        n = W.ndim - 2
        to, at, kernel = PLACES[:n], WITHIN[:n], W.shape[:n]
        if self.groups == 1:
            return np.einsum(f"n{to}d{at},{at}df->n{to}f", self.windows(x, kernel), W, optimize=True)
        if W.shape[-2] == 1 and W.shape[-1] == self.groups:
            return np.einsum(f"n{to}d{at},{at}d->n{to}d", self.windows(x, kernel), W[..., 0, :], optimize=True)
        windows = self.windows(x.reshape(*x.shape[:-1], self.groups, -1), kernel)
        W = W.reshape(*W.shape[:-1], self.groups, -1)
        y = np.einsum(f"n{to}gd{at},{at}dgf->n{to}gf", windows, W, optimize=True)
        return y.reshape(*y.shape[: n + 1], -1)

    def windows(self, x, kernel):
        """Return the places of images that the filters read, `kernel` last."""
        n = len(kernel)
        reach = [self.dilation * (size - 1) + 1 for size in kernel]
        windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(1, n + 1)))
        strided, apart = ([slice(None, None, step)] * n for step in (self.stride, self.dilation))
        return windows[(slice(None), *strided, ..., *apart)]

    def in_jax(self, W, x, weights):
        import jax.numpy as jnp
        from jax.lax import conv_general_dilated

        axes = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC")}[W.ndim - 2]
        steps, gaps = ((step,) * (W.ndim - 2) for step in (self.stride, self.dilation))
        options = {"rhs_dilation": gaps, "dimension_numbers": axes, "feature_group_count": self.groups}
        return jnp.sum(conv_general_dilated(x, W, steps, "VALID", **options) * weights)

    def in_torch(self, W, x, weights):
        import torch
        from torch.nn.functional import conv1d, conv2d

        n = W.ndim - 2
        convolved = {1: conv1d, 2: conv2d}[n]
        options = {"stride": self.stride, "dilation": self.dilation, "groups": self.groups}
        y = convolved(x.movedim(-1, 1), W.permute(n + 1, n, *range(n)), **options)  # views: channels stay last
        return torch.sum(y.movedim(1, -1) * weights)

    def by_hand(self, W, x, weights):
        """Multiply by one matrix for each place of the filters, forward and back."""
        y, d_W, d_x = np.zeros_like(weights), np.empty_like(W), np.zeros_like(x)
        for place in product(*map(range, W.shape[:-2])):
            at = (slice(None), *(self.steps(k, n) for k, n in zip(place, weights.shape[1:-1], strict=True)))
            for group in range(self.groups):
                ins, outs = (slice(group * n, (group + 1) * n) for n in (W.shape[-2], W.shape[-1] // self.groups))
                part, w, g = x[*at, ins], W[*place, :, outs], weights[..., outs]
                y[..., outs] += part @ w
                d_W[*place, :, outs] = np.tensordot(part, g, axes=[range(W.ndim - 1)] * 2)
                d_x[*at, ins] += g @ w.T
        return np.vdot(y, weights), (d_W, d_x)

    def steps(self, k, n):
        start = k * self.dilation
        return slice(start, start + (n - 1) * self.stride + 1, self.stride)

    def forward_by_hand(self, W, x, weights):
        return self.by_hand(W, x, weights)[0], ()

    def example(self, rng, batch, side, kernel, channels, filters, dims=2):
        place = ((side - self.dilation * (kernel - 1) - 1) // self.stride + 1,) * dims
        W = rng.normal(size=((kernel,) * dims) + (channels // self.groups, filters))
        return W, rng.normal(size=(batch, *(side,) * dims, channels)), rng.normal(size=(batch, *place, filters))


def both(title, convolution, sizes, small):
    """Return the cases of a convolution: forward, and forward and back."""
    peers = {"jax": convolution.in_jax, "torch": convolution.in_torch, "autograd": None, "pytensor": None}
    forward = Model(convolution.loss, convolution.example, convolution.forward_by_hand, wrt=0, peers=peers)
    back = Model(convolution.loss, convolution.example, convolution.by_hand, wrt=2, peers=peers)
    return [
        *cases(f"{title}, forward", forward, sizes, small=small, dtypes=("float32",)),
        *cases(f"{title}, forward and back", back, sizes, small=small, dtypes=("float32",)),
    ]


FEW = "batch=2 side=7 kernel=3 channels=4 filters=4"
USUAL = "batch=8 side=34 kernel=3 channels=16 filters=32"
DEEP, FEWER = (f"batch={n} side={m} kernel=3 channels=32 filters=32" for n, m in ((8, 34), (2, 7)))
LONG = "batch=8 side=1032 kernel=9 channels=16 filters=32 dims=1"
CASES = [
    *both("convolution 3x3", Convolution(), USUAL, FEW),
    *both("convolution 3x3, stride 2", Convolution(stride=2), USUAL, FEW),
    *both("convolution 3x3, dilation 2", Convolution(dilation=2), USUAL, FEW),
    *both("convolution 3x3, 4 groups", Convolution(groups=4), USUAL, FEW),
    *both("convolution 3x3, a filter a channel", Convolution(groups=32), DEEP, FEWER),
    *both("convolution 1x1", Convolution(), "batch=8 side=32 kernel=1 channels=64 filters=64", FEW),
    *both("convolution 5x5", Convolution(), "batch=8 side=36 kernel=5 channels=3 filters=8", FEW),
    *both("convolution of 9", Convolution(), LONG, FEW + " dims=1"),
]
