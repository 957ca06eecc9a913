"""The package without symgrad: NumPy is all that it needs.

python -m unittest discover -s tests -t .
"""

import sys
import unittest

import numpy as np
from curve import fit
from curve.loss_grad import loss_value_and_grad
from curve.model import decay, loss

T = np.linspace(0, 3, 40)
TRUE = np.array([2.0, 1.5, 0.3])


class TestCurve(unittest.TestCase):
    def test_fit_finds_the_decay_that_was_drawn(self):
        np.testing.assert_allclose(fit(T, decay(TRUE, T)), TRUE, atol=1e-6)

    def test_fit_is_near_where_there_is_noise(self):
        noise = 0.05 * np.sin(40 * T)
        np.testing.assert_allclose(fit(T, decay(TRUE, T) + noise), TRUE, atol=0.1)

    def test_the_gradient_is_that_of_the_loss(self):
        params, y, h = np.array([1.0, 0.7, 0.1]), decay(TRUE, T), 1e-6
        value, gradient = loss_value_and_grad(params, T, y)
        steps = h * np.eye(3)
        differences = [(loss(params + s, T, y) - loss(params - s, T, y)) / (2 * h) for s in steps]
        self.assertEqual(value, loss(params, T, y))
        np.testing.assert_allclose(gradient, differences, rtol=1e-7)

    def test_symgrad_is_not_imported(self):
        self.assertIsNone(sys.modules.get("symgrad"))


if __name__ == "__main__":
    unittest.main()
