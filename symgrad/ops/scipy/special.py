"""The ufuncs of `scipy.special`."""

from functools import partial

import numpy as np
import scipy.special

from symgrad.ops.define import elementwise

special = partial(elementwise, package="scipy.special")

special(scipy.special.gammaln, lambda y, x: scipy.special.digamma(x), singular=True, domain=(0.1, 3.0))
special(scipy.special.digamma, name="digamma", singular=True, domain=(0.1, 3.0))
special(scipy.special.erf, lambda y, x: 2 / np.sqrt(np.pi) * np.exp(-x * x))
