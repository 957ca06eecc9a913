"""The likelihood of a Gaussian mixture, by all of its parameters (the GMM of ADBench, without its prior)."""

import numpy as np

from cases.model import Model, cases
from cases.threads import over_rows

ROWS = 256  # of a block by hand: what it works on stays in the L2 cache


def loss(xp, alpha, mu, q, l, x, lower_of=None, logsumexp=None):
    """Negative log likelihood of x[n, d] under k Gaussians with precision factor diag(exp q) + tril(l)."""
    k, d = mu.shape
    lower = (lower_of or assigned)(l, k, d)
    centred = x[:, None, :] - mu
    whitened = xp.exp(q) * centred + xp.einsum("kij,nkj->nki", lower, centred)
    logits = alpha + xp.sum(q, axis=1) - 0.5 * xp.sum(whitened**2, axis=2)
    if logsumexp is None:
        top = xp.max(logits, axis=1, keepdims=True)
        log_sum = top[:, 0] + xp.log(xp.sum(xp.exp(logits - top), axis=1))
    else:
        log_sum = logsumexp(logits, 1)
    return x.shape[0] * xp.log(xp.sum(xp.exp(alpha))) - xp.sum(log_sum)


def assigned(l, k, d):
    """The strictly lower triangles, as NumPy writes them."""
    rows, cols = np.tril_indices(d, -1)
    lower = np.zeros((k, d, d), dtype=l.dtype, like=l)
    lower[:, rows, cols] = l
    return lower


def in_jax(*args):
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    def lower_of(l, k, d):
        return jnp.zeros((k, d, d), l.dtype).at[:, *np.tril_indices(d, -1)].set(l)

    return loss(jnp, *args, lower_of, logsumexp)


def in_torch(*args):
    import torch

    def lower_of(l, k, d):
        lower = torch.zeros((k, d, d), dtype=l.dtype)
        lower[:, *np.tril_indices(d, -1)] = l
        return lower

    return loss(torch, *args, lower_of, torch.logsumexp)


def in_autograd(*args):
    import autograd.numpy as xp

    def lower_of(l, k, d):  # no assignment there: a zero is put in front, and every place says what it holds
        index = np.zeros((d, d), int)
        index[np.tril_indices(d, -1)] = 1 + np.arange(d * (d - 1) // 2)
        return xp.concatenate([np.zeros((k, 1)), l], axis=1)[:, index]

    return loss(xp, *args, lower_of)


def in_pytensor(alpha, mu, q, l, x):
    import pytensor.tensor as pt
    from pytensor.gradient import disconnected_grad

    def lower_of(l, k, d):
        k, d = mu.type.shape
        return pt.set_subtensor(pt.zeros((k, d, d), dtype=l.dtype)[:, *np.tril_indices(d, -1)], l)

    def logsumexp(logits, axis):  # the gradient of pt.logsumexp is 0 / 0 where exp underflows
        top = disconnected_grad(pt.max(logits, axis=axis, keepdims=True))
        return top[:, 0] + pt.log(pt.sum(pt.exp(logits - top), axis=axis))

    return loss(pt, alpha, mu, q, l, x, lower_of, logsumexp)


def by_hand(alpha, mu, q, l, x):
    """Rows go by in blocks, components first so that the products are batched; triangles are put together once."""
    n, (k, d) = x.shape[0], mu.shape
    rows, cols = np.tril_indices(d, -1)
    lower = np.zeros((k, d, d), l.dtype)
    lower[:, rows, cols] = l
    scale, offset = np.exp(q), alpha + q.sum(1)
    parts = over_rows(lambda part, i, j: share(x[i:j], lower, scale, mu, offset), n)
    log_sum, weights, d_scale, d_mu, d_lower = map(sum, zip(*parts, strict=True))
    e = np.exp(alpha)
    total = e.sum()
    d_alpha = n * e / total - weights
    return n * np.log(total) - log_sum, (d_alpha, -d_mu, d_scale * scale - weights[:, None], d_lower[:, rows, cols])


def share(x, lower, scale, mu, offset):
    """Return the contribution of some rows: a sum of logsumexp, and the gradients that grow with n."""
    (n, d), k, dtype = x.shape, len(mu), x.dtype
    transposed = lower.transpose(0, 2, 1)
    centred, whitened, scratch = (np.empty((k, ROWS, d), dtype) for _ in range(3))
    logits = np.empty((k, ROWS), dtype)
    log_sum, weights = 0.0, np.zeros(k, dtype)
    d_scale, d_mu, d_lower = np.zeros((k, d), dtype), np.zeros((k, d), dtype), np.zeros((k, d, d), dtype)
    for i in range(0, n, ROWS):
        m = min(ROWS, n - i)
        c, w, t, s = centred[:, :m], whitened[:, :m], scratch[:, :m], logits[:, :m]
        np.subtract(x[i : i + m], mu[:, None], out=c)
        np.matmul(c, transposed, out=w)
        w += np.multiply(c, scale[:, None], out=t)
        np.einsum("knd,knd->kn", w, w, out=s)
        s *= -0.5
        s += offset[:, None]
        top = s.max(0)
        s -= top
        np.exp(s, out=s)
        total = s.sum(0)
        log_sum += top.sum() + np.log(total).sum()
        s /= total
        weights += s.sum(1)
        w *= s[:, :, None]
        d_scale += np.einsum("knd,knd->kd", w, c)
        d_lower += w.transpose(0, 2, 1) @ c
        summed = w.sum(1)
        d_mu += summed * scale + (summed[:, None, :] @ lower)[:, 0]
    return log_sum, weights, d_scale, d_mu, d_lower


def example(rng, d, k, n):
    shapes = (k,), (k, d), (k, d), (k, d * (d - 1) // 2), (n, d)
    return tuple(rng.normal(size=shape) for shape in shapes)


PEERS = {"jax": in_jax, "torch": in_torch, "autograd": in_autograd, "pytensor": in_pytensor}
CASES = cases(
    "Gaussian mixture",
    Model(loss, example, by_hand, wrt=4, peers=PEERS),
    "d=2 k=5 n=1000",
    "d=10 k=25 n=1000",
    "d=20 k=25 n=10000",
    "d=64 k=25 n=1000",
    small="d=3 k=4 n=600",
)
