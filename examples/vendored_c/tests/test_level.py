"""The package without symgrad: NumPy is all that it needs, and C is faster where it was compiled.

python -m unittest discover -s tests -t .
"""

import sys
import unittest

import numpy as np
from level import fit
from level.likelihood_grad import likelihood_value_and_grad
from level.model import likelihood

RNG = np.random.default_rng(0)
Y = np.cumsum(RNG.normal(0, 0.3, 400)) + RNG.normal(0, 1.0, 400)


class TestLevel(unittest.TestCase):
    def test_fit_finds_the_variances(self):
        q, r = fit(Y)
        self.assertLess(abs(np.log(q / 0.09)), 0.7)
        self.assertLess(abs(np.log(r)), 0.3)

    def test_the_gradient_is_that_of_the_likelihood(self):
        value, slopes = likelihood_value_and_grad(0.2, 0.8, Y)
        h = 1e-5
        q = (likelihood(0.2 + h, 0.8, Y) - likelihood(0.2 - h, 0.8, Y)) / (2 * h)
        r = (likelihood(0.2, 0.8 + h, Y) - likelihood(0.2, 0.8 - h, Y)) / (2 * h)
        self.assertAlmostEqual(value, likelihood(0.2, 0.8, Y), places=9)
        np.testing.assert_allclose(slopes, (q, r), rtol=1e-6)

    def test_symgrad_is_not_imported(self):
        self.assertIsNone(sys.modules.get("symgrad"))


if __name__ == "__main__":
    unittest.main()
