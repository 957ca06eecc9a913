"""Fourier transforms: filtered signals, an image from the magnitude of its spectrum, a flow by its derivatives."""

import numpy as np

from cases.model import Model, cases

STEPS, VISCOSITY, DURATION = 20, 0.02, 1e-3


def filtered(xp, h, signals, wanted):
    """Signals through a short filter that is applied to all of their period."""
    n = signals.shape[-1]
    found = xp.fft.irfft(xp.fft.rfft(signals) * xp.fft.rfft(h, n=n), n=n)
    return xp.sum((found - wanted) ** 2)


def filtered_by_hand(h, signals, wanted):
    n = signals.shape[-1]
    spectra = np.fft.rfft(signals)
    error = np.fft.irfft(spectra * np.fft.rfft(h, n=n), n=n) - wanted
    spectrum = np.einsum("ij,ij->j", np.conj(spectra), np.fft.rfft(error))
    return np.vdot(error, error), (2 * np.fft.irfft(spectrum, n=n)[: len(h)],)


def some_signals(rng, batch, n, taps):
    return rng.normal(size=taps) / taps, rng.normal(size=(batch, n)), rng.normal(size=(batch, n))


def retrieved(xp, image, intensity):
    """An image whose spectrum has an intensity that was measured."""
    spectrum = xp.fft.fft2(image)
    return xp.sum((spectrum.real**2 + spectrum.imag**2 - intensity) ** 2)


def retrieved_by_hand(image, intensity):
    spectrum = np.fft.fft2(image)
    error = spectrum.real**2 + spectrum.imag**2 - intensity
    return np.vdot(error, error), (4 * image.size * np.fft.ifft2(error * spectrum).real,)


def some_image(rng, side):
    return rng.uniform(size=(side, side)) / side, rng.uniform(size=(side, side))


def flow(xp, u, wanted, wave):
    """Burgers' equation in steps, with derivatives in space by transforms."""
    n = u.shape[-1]
    for _ in range(STEPS):
        spectrum = xp.fft.rfft(u)
        slope = xp.fft.irfft(1j * wave * spectrum, n=n)
        bend = xp.fft.irfft(-(wave**2) * spectrum, n=n)
        u = u + DURATION * (VISCOSITY * bend - u * slope)
    return xp.sum((u - wanted) ** 2)


def flow_by_hand(u, wanted, wave):
    n, before, turn, damping = u.shape[-1], [], 1j * wave, -VISCOSITY * wave**2
    for _ in range(STEPS):
        spectrum = np.fft.rfft(u)
        slope = np.fft.irfft(turn * spectrum, n=n)
        before.append((u, slope))
        u = u + DURATION * (np.fft.irfft(damping * spectrum, n=n) - u * slope)
    error = u - wanted
    g = 2 * error
    for u, slope in reversed(before):
        spectrum = damping * np.fft.rfft(g) + turn * np.fft.rfft(g * u)  # the first derivative is antisymmetric
        g = g + DURATION * (np.fft.irfft(spectrum, n=n) - g * slope)
    return np.vdot(error, error), (g,)


def some_flow(rng, n):
    x = 2 * np.pi * np.arange(n) / n
    wave = np.arange(n // 2 + 1.0)
    wave[-1] = 0  # the highest wave of an even number has no sign
    return np.sin(x) + 0.1 * rng.normal(size=n), np.cos(x), wave


NOBODY = {"pytensor": None}
CASES = [
    *cases("Fourier, filtered signals", Model(filtered, some_signals, filtered_by_hand, peers=NOBODY),
           "batch=64 n=4096 taps=32", small="batch=2 n=16 taps=4"),
    *cases("Fourier, phase retrieval", Model(retrieved, some_image, retrieved_by_hand, peers=NOBODY),
           "side=256", small="side=6"),
    *cases("Fourier, Burgers' equation", Model(flow, some_flow, flow_by_hand, peers=NOBODY),
           "n=512", small="n=16"),
]  # fmt: skip
