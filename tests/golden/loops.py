# level 1
import numpy as np


def recurrent_value_and_grad(W, xs):
    n = xs.shape[0]
    # test_control_source.py  h, hs = sg.scan(step, np.zeros(3), xs)
    h = np.zeros(3)  # float64[3]
    hs = np.empty((n, 3))  # float64[n, 3]
    hs_2 = []
    t1 = []
    for t, x in enumerate(xs):
        hs_2.append(h)
        # test_control_source.py  h = np.tanh(h @ W + x)
        h = np.tanh(h @ W + x)  # float64[3]
        # derivative of test_control_source.py
        t1.append(1 - h * h)
        hs[t] = h
    # test_control_source.py  return np.sum(h * h) + np.sum(hs)
    value = h @ h + np.sum(hs)
    # derivative of test_control_source.py
    d_hs = np.ones((n, 3))  # float64[n, 3]
    d_h = 2 * h  # float64[3]
    # derivative of test_control_source.py
    d_W = np.zeros((3, 3))  # float64[3, 3]
    for hs_2_t, t1_t, d_h_2 in zip(reversed(hs_2), reversed(t1), d_hs[::-1]):
        d_h = d_h + d_h_2  # float64[3]
        # derivative of test_control_source.py
        t2 = d_h * t1_t  # float64[3]
        d_h = W @ t2
        # derivative of test_control_source.py
        d_W += np.outer(hs_2_t, t2)
    return value, d_W


# level 2
import numpy as np


def recurrent_value_and_grad(W, xs):
    n = xs.shape[0]
    # test_control_source.py  h, hs = sg.scan(step, np.zeros(3), xs)
    h = np.zeros(3)  # float64[3]
    hs = np.empty((n, 3))  # float64[n, 3]
    hs_2 = np.empty((n, 3))  # float64[n, 3]
    for t, x in enumerate(xs):
        hs_2[t] = h
        # test_control_source.py  h = np.tanh(h @ W + x)
        h = np.tanh(h.dot(W) + x)
        hs[t] = h
    # test_control_source.py  return np.sum(h * h) + np.sum(hs)
    value = h.dot(h) + hs.sum()
    # derivative of test_control_source.py
    d_hs = np.ones((n, 3))  # float64[n, 3]
    d_h = 2.0 * h  # float64[3]
    # derivative of test_control_source.py
    t1 = 1.0 - hs * hs  # float64[n, 3]
    # derivative of test_control_source.py
    t2 = np.empty((n, 3))  # float64[n, 3]
    for t in range(n - 1, -1, -1):
        d_h = d_h + d_hs[t]  # float64[3]
        # derivative of test_control_source.py
        t3 = d_h * t1[t]  # float64[3]
        d_h = W.dot(t3)
        t2[t] = t3
    d_W = hs_2.T.dot(t2)  # float64[3, 3]
    return value, d_W


# level 1
import numpy as np


def oscillator(x, v, steps):
    # test_control_source.py  x, v = sg.fori_loop(0, steps, step, (x, v))
    for _ in range(steps):
        # test_control_source.py  v = v - 0.1 * np.sin(x)
        v = v - 0.1 * np.sin(x)  # float64[m]
        # test_control_source.py  x = x + 0.1 * v
        x = x + 0.1 * v
    return x.copy(), v.copy()


# level 2
import numpy as np


def oscillator(x, v, steps):
    # test_control_source.py  x, v = sg.fori_loop(0, steps, step, (x, v))
    for _ in range(steps):
        # test_control_source.py  v = v - 0.1 * np.sin(x)
        v = v - 0.1 * np.sin(x)  # float64[m]
        # test_control_source.py  x = x + 0.1 * v
        x = x + 0.1 * v
    return x.copy(), v.copy()


# level 1
import numpy as np


def root_value_and_grad(a):
    # test_control_source.py  r = sg.while_loop(lambda r: np.abs(r * r - a) > 1e-9, lambda r: r - (r * r - a) / (2 * r), a)
    value = a
    t1 = []
    t2 = []
    while np.abs(value * value - a) > 1e-09:
        t3 = 2 * value
        t4 = (value * value - a) / t3
        # derivative of test_control_source.py
        t5 = 1 / t3
        # test_control_source.py  r = sg.while_loop(lambda r: np.abs(r * r - a) > 1e-9, lambda r: r - (r * r - a) / (2 * r), a)
        value = value - t4
        t1.append(t5)
        # derivative of test_control_source.py
        t2.append(1 + 2 * (t4 / t3) - t3 * t5)
    # derivative of test_control_source.py
    t6 = np.float64(1.0)
    t7 = np.float64(0.0)
    for t1_t, t2_t in zip(reversed(t1), reversed(t2)):
        t7 += t6 * t1_t
        t6 = t6 * t2_t
    d_a = t6 + t7
    return np.float64(value), d_a


# level 2
import numpy as np


def root_value_and_grad(a):
    a = float(a)
    try:
        # test_control_source.py  r = sg.while_loop(lambda r: np.abs(r * r - a) > 1e-9, lambda r: r - (r * r - a) / (2 * r), a)
        value = a
        t1 = []
        t2 = []
        while abs(value * value - a) > 1e-09:
            t3 = 2.0 * value
            t4 = (value * value - a) / t3
            # derivative of test_control_source.py
            t5 = 1.0 / t3
            # test_control_source.py  r = sg.while_loop(lambda r: np.abs(r * r - a) > 1e-9, lambda r: r - (r * r - a) / (2 * r), a)
            value = value - t4
            t1.append(t5)
            # derivative of test_control_source.py
            t2.append(1.0 + 2.0 * (t4 / t3) - t3 * t5)
        # derivative of test_control_source.py
        t6 = 1.0
        t7 = 0.0
        for t1_t, t2_t in zip(reversed(t1), reversed(t2)):
            t7 += t6 * t1_t
            t6 = t6 * t2_t
        d_a = t6 + t7
        return np.float64(value), np.float64(d_a)
    except (ArithmeticError, ValueError):  # NumPy has infinities and NaNs for these
        return root_value_and_grad_by_numpy(np.float64(a))


def root_value_and_grad_by_numpy(a):
    # test_control_source.py  r = sg.while_loop(lambda r: np.abs(r * r - a) > 1e-9, lambda r: r - (r * r - a) / (2 * r), a)
    value = a
    t1 = []
    t2 = []
    while np.abs(value * value - a) > 1e-09:
        t3 = 2 * value
        t4 = (value * value - a) / t3
        # derivative of test_control_source.py
        t5 = 1 / t3
        # test_control_source.py  r = sg.while_loop(lambda r: np.abs(r * r - a) > 1e-9, lambda r: r - (r * r - a) / (2 * r), a)
        value = value - t4
        t1.append(t5)
        # derivative of test_control_source.py
        t2.append(1 + 2 * (t4 / t3) - t3 * t5)
    # derivative of test_control_source.py
    t6 = np.float64(1.0)
    t7 = np.float64(0.0)
    for t1_t, t2_t in zip(reversed(t1), reversed(t2)):
        t7 += t6 * t1_t
        t6 = t6 * t2_t
    d_a = t6 + t7
    return np.float64(value), d_a


# level 1
import numpy as np


def adaptive_value_and_grad(rate, end):
    # test_control_source.py  _, y, _ = sg.while_loop(lambda state: state[0] < end, step, (0.0, 1.0, 0.1))
    t_2 = np.float64(0.0)
    value = np.float64(1.0)
    h = np.float64(0.1)
    values = []
    hs = []
    while t_2 < end:
        values.append(value)
        hs.append(h)
        # test_control_source.py  whole = y + h * rate * y
        whole = value + h * rate * value
        # test_control_source.py  half = y + 0.5 * h * rate * y
        t1 = 0.5 * h
        t2 = t1 * rate
        half = value + t2 * value
        # test_control_source.py  halves = half + 0.5 * h * rate * half
        halves = half + t2 * half
        # test_control_source.py  good = np.abs(halves - whole) < 1e-3
        good = np.abs(halves - whole) < 0.001
        # test_control_source.py  t, y = sg.cond(good, lambda: (t + h, halves), lambda: (t, y))
        if good:
            t_2 = t_2 + h
            value = halves
        # test_control_source.py  h = np.minimum(np.where(good, 1.5 * h, 0.5 * h), end - t)
        h = np.minimum(np.where(good, 1.5 * h, t1), end - t_2)
    # derivative of test_control_source.py
    d_y = np.float64(1.0)
    d_rate = np.float64(0.0)
    for value_2, h_2 in zip(reversed(values), reversed(hs)):
        # test_control_source.py  whole = y + h * rate * y
        whole_2 = value_2 + h_2 * rate * value_2
        # test_control_source.py  half = y + 0.5 * h * rate * y
        t3 = 0.5 * h_2
        t4 = t3 * rate
        half_2 = value_2 + t4 * value_2
        # test_control_source.py  halves = half + 0.5 * h * rate * half
        halves_2 = half_2 + t4 * half_2
        # test_control_source.py  good = np.abs(halves - whole) < 1e-3
        good_2 = np.abs(halves_2 - whole_2) < 0.001
        # derivative of test_control_source.py
        if good_2:
            d_halves_2 = d_y
            d_y = np.float64(0.0)
        else:
            d_halves_2 = np.float64(0.0)
        # derivative of test_control_source.py
        d_half_2 = d_halves_2 + d_halves_2 * t4
        # derivative of test_control_source.py
        d_y = d_y + d_half_2 + d_half_2 * t4
        # derivative of test_control_source.py
        d_rate += (d_halves_2 * half_2 + d_half_2 * value_2) * t3
    return np.float64(value), d_rate


# level 2
import numpy as np


def minimum(a, b):
    return a if a < b or a != a else b


def adaptive_value_and_grad(rate, end):
    rate = float(rate)
    # test_control_source.py  _, y, _ = sg.while_loop(lambda state: state[0] < end, step, (0.0, 1.0, 0.1))
    t_2 = 0.0
    value = 1.0
    h = 0.1
    values = []
    hs = []
    while t_2 < end:
        values.append(value)
        hs.append(h)
        # test_control_source.py  whole = y + h * rate * y
        whole = value + h * rate * value
        # test_control_source.py  half = y + 0.5 * h * rate * y
        t1 = 0.5 * h
        t2 = t1 * rate
        half = value + t2 * value
        # test_control_source.py  halves = half + 0.5 * h * rate * half
        halves = half + t2 * half
        # test_control_source.py  good = np.abs(halves - whole) < 1e-3
        good = abs(halves - whole) < 0.001
        # test_control_source.py  t, y = sg.cond(good, lambda: (t + h, halves), lambda: (t, y))
        if good:
            t_2 = t_2 + h
            value = halves
        # test_control_source.py  h = np.minimum(np.where(good, 1.5 * h, 0.5 * h), end - t)
        h = minimum(1.5 * h if good else t1, end - t_2)
    # derivative of test_control_source.py
    d_y = 1.0
    d_rate = 0.0
    for value_2, h_2 in zip(reversed(values), reversed(hs)):
        # test_control_source.py  whole = y + h * rate * y
        whole_2 = value_2 + h_2 * rate * value_2
        # test_control_source.py  half = y + 0.5 * h * rate * y
        t3 = 0.5 * h_2
        t4 = t3 * rate
        half_2 = value_2 + t4 * value_2
        # test_control_source.py  halves = half + 0.5 * h * rate * half
        halves_2 = half_2 + t4 * half_2
        # test_control_source.py  good = np.abs(halves - whole) < 1e-3
        good_2 = abs(halves_2 - whole_2) < 0.001
        # derivative of test_control_source.py
        if good_2:
            d_halves_2 = d_y
            d_y = 0.0
        else:
            d_halves_2 = 0.0
        # derivative of test_control_source.py
        d_half_2 = d_halves_2 + d_halves_2 * t4
        # derivative of test_control_source.py
        d_y = d_y + d_half_2 + d_half_2 * t4
        # derivative of test_control_source.py
        d_rate += (d_halves_2 * half_2 + d_half_2 * value_2) * t3
    return np.float64(value), np.float64(d_rate)


# level 1
import numpy as np


def tiers(x):
    # test_control_source.py  y = sg.cond(
    if x > 10:
        # test_control_source.py  lambda: np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x),
        y = np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x)
    elif x > 5:
        # test_control_source.py  lambda: sg.cond(x > 5, lambda: x * x, lambda: sg.cond(x > 0, lambda: x, lambda: np.exp(x) + x / 3)),
        # test_control_source.py  lambda: np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x),
        y = x * x
    elif x > 0:
        y = x
    else:
        y = np.exp(x) + x / 3
    return np.float64(y)


# level 2
import math

import numpy as np


def tiers(x):
    x = float(x)
    try:
        # test_control_source.py  y = sg.cond(
        if x > 10.0:
            # test_control_source.py  lambda: np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x),
            y = math.log(x) * math.sqrt(x) + math.sin(x) * math.cos(x) - x / (1.0 + x * x)
        elif x > 5.0:
            # test_control_source.py  lambda: sg.cond(x > 5, lambda: x * x, lambda: sg.cond(x > 0, lambda: x, lambda: np.exp(x) + x / 3)),
            # test_control_source.py  lambda: np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x),
            y = x * x
        elif x > 0.0:
            y = x
        else:
            y = math.exp(x) + x / 3.0
        return np.float64(y)
    except (ArithmeticError, ValueError):  # NumPy has infinities and NaNs for these
        return tiers_by_numpy(np.float64(x))


def tiers_by_numpy(x):
    # test_control_source.py  y = sg.cond(
    if x > 10:
        # test_control_source.py  lambda: np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x),
        y = np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x)
    elif x > 5:
        # test_control_source.py  lambda: sg.cond(x > 5, lambda: x * x, lambda: sg.cond(x > 0, lambda: x, lambda: np.exp(x) + x / 3)),
        # test_control_source.py  lambda: np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x) - x / (1 + x * x),
        y = x * x
    elif x > 0:
        y = x
    else:
        y = np.exp(x) + x / 3
    return np.float64(y)


# level 1
import numpy as np


def binomials(x):
    # test_control_source.py  first = np.zeros(8)
    first = np.zeros(8)  # float64[8]
    # test_control_source.py  first[0] = x
    first[0] = x
    # test_control_source.py  return sg.fori_loop(0, 8, row, first)
    for t in range(8):
        # test_control_source.py  return sg.fori_loop(0, n, place, c)
        for i in range(t):
            # test_control_source.py  c[n - k] = c[n - k] + c[n - k - 1]
            t1 = t - i
            first[t1] = first[t1] + first[t1 - 1]
    return first


# level 2
import numpy as np


def binomials(x):
    # test_control_source.py  first = np.zeros(8)
    first = np.zeros(8)  # float64[8]
    # test_control_source.py  first[0] = x
    first[0] = x
    # test_control_source.py  return sg.fori_loop(0, 8, row, first)
    for t in range(8):
        # test_control_source.py  return sg.fori_loop(0, n, place, c)
        for i in range(t):
            # test_control_source.py  c[n - k] = c[n - k] + c[n - k - 1]
            t1 = t - i
            first[t1] = first.item(t1) + first.item(t1 - 1)
    return first


# level 1
import numpy as np


def backwards(xs):
    n = xs.shape[0]
    # test_control_source.py  s, before = sg.scan(step, np.zeros(6), xs, reverse=True)
    s = np.zeros(6)  # float64[6]
    before = np.empty((n, 6))  # float64[n, 6]
    for t in range(n - 1, -1, -1):
        before[t] = s
        # test_control_source.py  return 0.5 * s + x, s
        s = 0.5 * s + xs[t]
    return s, before


# level 2
import numpy as np


def backwards(xs):
    n = xs.shape[0]
    # test_control_source.py  s, before = sg.scan(step, np.zeros(6), xs, reverse=True)
    s = np.zeros(6)  # float64[6]
    before = np.empty((n, 6))  # float64[n, 6]
    for t in range(n - 1, -1, -1):
        before[t] = s
        # test_control_source.py  return 0.5 * s + x, s
        s = 0.5 * s + xs[t]
    return s, before


# level 1
import numpy as np


def switched(i, x):
    # test_control_source.py  return sg.switch(i, [np.sin, lambda x: x * 2, np.cos], x)
    if i <= 0:
        t1 = np.sin(x)
    elif i - 1 <= 0:
        t1 = x * 2
    else:
        t1 = np.cos(x)
    return t1


# level 2
import numpy as np


def switched(i, x):
    # test_control_source.py  return sg.switch(i, [np.sin, lambda x: x * 2, np.cos], x)
    if i <= 0:
        t1 = np.sin(x)
    elif i - 1 <= 0:
        t1 = x * 2.0
    else:
        t1 = np.cos(x)
    return t1


# level 1
import numpy as np


def moments(xs):
    # test_control_source.py  (n, s, q), _ = sg.scan(add, (0, np.zeros(6), np.zeros((6, 6))), xs)
    t1 = 0
    t2 = np.zeros(6)  # float64[6]
    t3 = np.zeros((6, 6))  # float64[6, 6]
    for x in xs:
        # test_control_source.py  return (n + 1, s + x, q + np.outer(x, x)), None
        t1 += 1
        t2 += x
        t3 += np.outer(x, x)
    # test_control_source.py  return s / n, q / n
    t4 = t2 / t1  # float64[6]
    t5 = t3 / t1  # float64[6, 6]
    return t4, t5


# level 2
import numpy as np


def moments(xs):
    n = xs.shape[0]
    # test_control_source.py  (n, s, q), _ = sg.scan(add, (0, np.zeros(6), np.zeros((6, 6))), xs)
    t1 = 0
    for _ in range(n):
        # test_control_source.py  return (n + 1, s + x, q + np.outer(x, x)), None
        t1 += 1
    # test_control_source.py  return s / n, q / n
    t2 = xs.sum(axis=0) / t1  # float64[6]
    t3 = xs.T.dot(xs) / t1  # float64[6, 6]
    return t2, t3


# level 1
import numpy as np


def fibonacci(a, b, n):
    # test_control_source.py  a, b = sg.fori_loop(0, n, lambda _, s: (s[1], s[0] + s[1]), (a, b))
    for _ in range(n):
        a, b = b, a + b
    return np.float64(a)


# level 2
import numpy as np


def fibonacci(a, b, n):
    # test_control_source.py  a, b = sg.fori_loop(0, n, lambda _, s: (s[1], s[0] + s[1]), (a, b))
    a = float(a)
    b = float(b)
    for _ in range(n):
        a, b = b, a + b
    a = np.float64(a)
    return a


# level 1
import numpy as np


def logistic_map_value_and_grad(r, x):
    # test_control_source.py  x = sg.fori_loop(0, 100, lambda _, x: r * x * (1 - x), x)
    xs = []
    for _ in range(100):
        xs.append(x)
        x = r * x * (1 - x)
    # derivative of test_control_source.py
    d_x_2 = np.float64(1.0)
    d_r = np.float64(0.0)
    for x_3 in reversed(xs):
        # test_control_source.py  x = sg.fori_loop(0, 100, lambda _, x: r * x * (1 - x), x)
        t1 = 1 - x_3
        # derivative of test_control_source.py
        d_r += t1 * d_x_2 * x_3
        d_x_2 = d_x_2 * r * (t1 - x_3)
    return x, d_r


# level 2
import numpy as np


def logistic_map_value_and_grad(r, x):
    # test_control_source.py  x = sg.fori_loop(0, 100, lambda _, x: r * x * (1 - x), x)
    x = float(x)
    xs = []
    for _ in range(100):
        xs.append(x)
        x = r * x * (1.0 - x)
    xs = np.array(xs)  # float64[100]
    x = np.float64(x)
    t1 = 1.0 - xs  # float64[100]
    # derivative of test_control_source.py
    t2 = t1 - xs  # float64[100]
    d_x = 1.0
    d_xs = []
    for t2_t in reversed(t2.tolist()):
        d_xs.append(d_x)
        d_x = d_x * r * t2_t
    d_xs = np.array(d_xs[::-1])  # float64[100]
    d_r = (t1 * d_xs).dot(xs)
    return x, d_r
