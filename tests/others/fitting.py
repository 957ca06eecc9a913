"""Problems of Moré, Garbow and Hillstrom (ACM TOMS 7, 1981), written as people port them: arrays filled in loops."""

import numpy as np


def freudenstein_roth(x):
    fvec = np.zeros(2)
    fvec[0] = -13.0 + x[0] + ((5.0 - x[1]) * x[1] - 2.0) * x[1]
    fvec[1] = -29.0 + x[0] + ((1.0 + x[1]) * x[1] - 14.0) * x[1]
    return fvec


def powell_badly_scaled(x):
    return np.array([1e4 * x[0] * x[1] - 1, np.exp(-x[0]) + np.exp(-x[1]) - 1.0001])


def helical_valley(x):
    tpi = 8.0 * np.arctan(1.0)
    temp = np.arctan2(x[1], x[0]) / tpi
    fvec = np.empty(3)
    fvec[0] = 10.0 * (x[2] - 10.0 * temp)
    fvec[1] = 10.0 * (np.sqrt(x[0] ** 2 + x[1] ** 2) - 1.0)
    fvec[2] = x[2]
    return fvec


def bard(x):
    y = [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39]
    m = len(y)
    fvec = np.zeros(m)
    for i in range(m):
        tmp1 = i + 1
        tmp2 = 15 - i
        tmp3 = tmp1
        if i > 7:
            tmp3 = tmp2
        fvec[i] = y[i] - (x[0] + tmp1 / (x[1] * tmp2 + x[2] * tmp3))
    return fvec


def gaussian(x):
    y = np.array([0.0009, 0.0044, 0.0175, 0.0540, 0.1295, 0.2420, 0.3521, 0.3989])
    y = np.concatenate((y, y[-2::-1]))
    fvec = np.zeros(15)
    for i in range(15):
        t = (8.0 - (i + 1)) / 2.0
        fvec[i] = x[0] * np.exp(-x[1] * (t - x[2]) ** 2 / 2.0) - y[i]
    return fvec


def kowalik_osborne(x):
    v = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
    y2 = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
    fvec = np.zeros(np.size(v))
    for i, vi in enumerate(v):
        fvec[i] = y2[i] - x[0] * (vi * (vi + x[1])) / (vi * (vi + x[2]) + x[3])
    return fvec


def meyer(x):
    y = (34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872)
    fvec = np.zeros(len(y))
    for i in range(len(y)):
        temp = 5.0 * float(i + 1) + 45.0 + x[2]
        fvec[i] = x[0] * np.exp(x[1] / temp) - y[i]
    return fvec


def box_3d(x):
    m = 10
    fvec = np.zeros((m, 1))
    for i in range(1, m + 1):
        temp = -i / 10
        fvec[i - 1, 0] = np.exp(temp * x[0]) - np.exp(temp * x[1]) + (np.exp(-i) - np.exp(temp)) * x[2]
    return fvec.ravel()


def powell_singular(x):
    f = np.zeros_like(x)
    f[0] = x[0] + 10 * x[1]
    f[1] = np.sqrt(5) * (x[2] - x[3])
    f[2] = (x[1] - 2 * x[2]) ** 2
    f[3] = np.sqrt(10) * (x[0] - x[3]) ** 2
    return f


def wood(x):
    x1, x2, x3, x4 = x
    return np.asarray(
        [
            10 * (x2 - x1**2),
            1 - x1,
            np.sqrt(90) * (x4 - x3**2),
            1 - x3,
            np.sqrt(10) * (x2 + x4 - 2),
            (x2 - x4) / 10**0.5,
        ]
    )


def biggs_exp6(x):
    m = 13
    fvec = np.zeros(m)
    for i in range(m):
        t = (i + 1) * 0.1
        y = np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t)
        fvec[i] += x[2] * np.exp(-t * x[0]) - x[3] * np.exp(-t * x[1])
        fvec[i] += x[5] * np.exp(-t * x[4]) - y
    return fvec


def watson(x):
    n = len(x)
    fvec = np.zeros(31)
    for i in range(29):
        div = (i + 1) / 29
        s1, dx = 0.0, 1.0
        for j in range(1, n):
            s1 += j * dx * x[j]
            dx *= div
        s2, dx = 0.0, 1.0
        for j in range(n):
            s2 += dx * x[j]
            dx *= div
        fvec[i] = s1 - s2**2 - 1.0
    fvec[29] = x[0]
    fvec[30] = x[1] - x[0] ** 2 - 1.0
    return fvec


def penalty(x):
    n = x.size
    fvec = np.zeros(n + 1)
    fvec[:n] = np.sqrt(1e-5) * (x - 1)
    fvec[-1] = np.dot(x, x) - 0.25
    return fvec


def variably_dimensioned(x):
    n = x.shape[0]
    fvec = np.zeros(n + 2)
    total = 0.0
    for j in range(n):
        fvec[j] = x[j] - 1
        total += (j + 1) * (x[j] - 1)
    fvec[n], fvec[n + 1] = total, total**2
    return fvec


def trigonometric(x):
    n = len(x)
    fvec, total = np.zeros(n), 0.0
    for j in range(n):
        fvec[j] = np.sin(x[j])
        total = total + np.cos(x[j])
    for j in range(n):
        fvec[j] = (n + j + 1) - fvec[j] - total - (j + 1) * np.cos(x[j])
    return fvec


def brown_almost_linear(x):
    n = len(x)
    fvec = x + np.sum(x) - (n + 1)
    fvec[n - 1] = np.prod(x) - 1
    return fvec


def broyden_tridiagonal(x):
    n = x.shape[0]
    fvec = np.zeros([n])
    for k in range(n):
        temp = (3.0 - 2.0 * x[k]) * x[k]
        temp1 = 0.0
        if k != 0:
            temp1 = x[k - 1]
        temp2 = 0.0
        if k != n - 1:
            temp2 = x[k + 1]
        fvec[k] = temp - temp1 - 2.0 * temp2 + 1.0
    return fvec


def broyden_banded(x):
    n = len(x)
    ml, mu = 5, 1
    fvec = np.zeros(n)
    for i in range(n):
        temp = 0.0
        for j in range(max(0, i - ml), min(n, i + mu + 1)):
            if i != j:
                temp += x[j] * (1.0 + x[j])
        fvec[i] = x[i] * (2.0 + 5.0 * x[i] ** 2) + 1.0 - temp
    return fvec


def discrete_boundary_value(x):
    n = len(x)
    h = 1.0 / (n + 1)
    t = np.linspace(h, n * h, n)
    fvec = 2 * x + h**2 * (x + t + 1) ** 3 / 2
    fvec[1:] -= x[:-1]
    fvec[:-1] -= x[1:]
    return fvec


def discrete_integral(x):
    n = len(x)
    h = 1.0 / float(n + 1)
    fvec = np.zeros(n)
    for i in range(n):
        ti = (i + 1) * h
        sum1 = np.sum([(j + 1) * h * (x[j] + (j + 1) * h + 1) ** 3 for j in range(i + 1)])
        sum2 = sum((1 - (j + 1) * h) * (x[j] + (j + 1) * h + 1) ** 3 for j in range(i + 1, n))
        fvec[i] = x[i] + h * ((1 - ti) * sum1 + ti * sum2) / 2
    return fvec


def chebyquad(x):
    n = len(x)
    fvec = np.zeros(n)
    for j in range(n):
        t0, t1 = 1.0, 2 * x[j] - 1
        factor = 2 * t1
        for i in range(n):
            fvec[i] += t1
            t0, t1 = t1, factor * t1 - t0
    iev = -1
    for k in range(n):
        fvec[k] /= n
        if iev > 0:
            fvec[k] += 1.0 / ((k + 1) ** 2 - 1)
        iev = -iev
    return fvec


def linear_full_rank(x, m=6):
    n = x.size
    fvec = np.full(m, -2 * np.sum(x) / m - 1.0)
    fvec[range(n)] += x
    return fvec


PROBLEMS = (
    (freudenstein_roth, [0.5, -2.0]),
    (powell_badly_scaled, [0.1, 1.0]),
    (helical_valley, [-1.0, 0.2, 0.3]),
    (bard, [1.0, 1.1, 0.9]),
    (gaussian, [0.4, 1.0, 0.1]),
    (kowalik_osborne, [0.25, 0.39, 0.415, 0.39]),
    (meyer, [0.02, 4000.0, 250.0]),
    (box_3d, [0.1, 10.0, 2.0]),
    (powell_singular, [3.0, -1.0, 0.2, 1.0]),
    (wood, [-3.0, -1.0, -3.0, -1.0]),
    (biggs_exp6, [1.0, 2.0, 1.0, 1.1, 1.2, 0.9]),
    (watson, [0.1, 0.2, -0.3]),
    (penalty, [1.0, 2.0, 3.0, 4.0]),
    (variably_dimensioned, [0.75, 0.5, 0.25]),
    (trigonometric, [0.2, 0.4, 0.1]),
    (brown_almost_linear, [0.5, 0.6, 0.7, 0.8]),
    (broyden_tridiagonal, [-1.0, -0.8, -1.2, 0.3]),
    (broyden_banded, [-1.0, 0.5, -0.7, 1.0, 0.2, 0.3, -0.4, 0.8]),
    (discrete_boundary_value, [-0.1, -0.2, -0.2, -0.1]),
    (discrete_integral, [-0.1, -0.2, -0.2, -0.1]),
    (chebyquad, [0.2, 0.4, 0.6, 0.8]),
    (linear_full_rank, [1.0, 1.2, 0.8]),
)
