"""The method of Levenberg and Marquardt, with derivatives that lie in the package as files."""

import numpy as np

from curve.loss_grad import loss_value_and_grad
from curve.model import loss, residuals
from curve.residuals_jacobian import residuals_jacobian


def fit(t, y, start=(1.0, 1.0, 0.0), steps=100):
    """Height, rate and offset of the decay nearest to measurements `y` at times `t`."""
    params, damping = np.array(start, float), 1e-3
    for _ in range(steps):
        value, gradient = loss_value_and_grad(params, t, y)
        if np.linalg.norm(gradient) < 1e-12:
            break
        J = residuals_jacobian(params, t, y)
        step = np.linalg.solve(J.T @ J + damping * np.eye(3), -J.T @ residuals(params, t, y))
        better = loss(params + step, t, y) < value
        params = params + step if better else params
        damping = damping / 5 if better else damping * 5
    return params
