"""Random functions in plain Python with loops, branches and jumps, as text."""

from random import Random

NUMBERS = ("a", "b", "c", "n")
COMPARISONS = ("<", ">", "<=", ">=")


class Writer:
    """Writes a function of a number `x` and an array `xs`, whose loops all end."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.lines, self.loops, self.left = [], 0, 10

    def function(self):
        self.lines = ["def f(x, xs):", "    a, b, c, n = x, 1.5, 0.0, 2", "    v = xs * 0.5", "    log = {'last': 0.0}"]
        if self.random.random() < 0.4:
            self.lines += ["    def helper(p, q=0.5):", *self.helper("        ")]
        else:
            self.lines += ["    helper = lambda p, q=0.5: p * q if p > q else q - p"]
        if self.random.random() < 0.3:
            self.lines += ["    def add(p):", "        nonlocal c", "        c += p", "        return c * 0.5"]
        else:
            self.lines += ["    add = lambda p: p + c"]
        self.block("    ", None)
        self.lines += ["    return a + 2 * b - c + 0.1 * n + np.sum(v) + log['last']"]
        return "\n".join(self.lines)

    def helper(self, indent):
        return [
            f"{indent}p = max(p, -3.0)",
            f"{indent}if p > {self.constant()}:",
            f"{indent}    return p - q",
            f"{indent}while p < {self.constant()}:",
            f"{indent}    p = p + 0.75",
            f"{indent}return p * q",
        ]

    # ---- statements

    def block(self, indent, loop):
        for _ in range(self.random.randint(1, 3)):
            self.left -= 1
            kinds = [self.assign, self.augment, self.write, self.item]
            if self.left > 0:
                kinds += [
                    self.branch,
                    self.branch,
                    self.early,
                    *(self.over, self.over, self.until) * (len(indent) < 24),
                ]
            if loop is not None:
                kinds += [self.jump]
            self.random.choice(kinds)(indent, loop)

    def assign(self, indent, loop):
        if self.random.random() < 0.2:
            self.lines.append(f"{indent}a, b = {self.number()}, {self.number()}")
        else:
            self.lines.append(f"{indent}{self.name()} = {self.number()}")

    def augment(self, indent, loop):
        self.lines.append(f"{indent}{self.name()} {self.random.choice(('+=', '-='))} {self.number()}")

    def write(self, indent, loop):
        place = self.random.choice(("v[0]", "v[1:]", "v[-1]", "v"))
        self.lines.append(f"{indent}{place} {self.random.choice(('+=', '*='))} {self.constant()}")

    def item(self, indent, loop):
        self.lines.append(f"{indent}log['last'] = {self.number()}")

    def branch(self, indent, loop):
        self.lines.append(f"{indent}if {self.test()}:")
        self.block(indent + "    ", loop)
        while self.random.random() < 0.3:
            self.lines.append(f"{indent}elif {self.test()}:")
            self.block(indent + "    ", loop)
        if self.random.random() < 0.6:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", loop)

    def over(self, indent, loop):
        self.loops += 1
        i, r = f"i{self.loops}", f"r{self.loops}"
        heads = [f"{i} in range(4)", f"{i} in range(5, 0, -2)", f"{r} in xs", f"{r} in reversed(xs)"]
        heads += [
            f"{i}, {r} in enumerate(xs)",
            f"{r}, {i} in zip(xs, xs[1:])",
            f"{i}, ({r}, _) in enumerate(zip(xs, v))",
        ]
        head = self.random.choice(heads)
        self.lines.append(f"{indent}for {head}:")
        for name in (i, r):
            if name in head.replace("(", " ").replace(",", " ").split():
                self.lines.append(f"{indent}    {self.name()} = {self.number()} + 0.25 * {name}")
        self.block(indent + "    ", self.loops)
        self.otherwise(indent, loop)

    def until(self, indent, loop):
        self.loops += 1
        k = f"k{self.loops}"
        start = self.random.choice((f"{k} = 0", f"{k} = 0.0 * x"))
        tests = (
            f"{k} < 4",
            f"{k} < 4 and ({self.test()})",
            f"not {k} >= 5",
            f"{k} < 3 or ({k} < 5 and ({self.test()}))",
            "True",
        )
        test = self.random.choice(tests)
        self.lines += [f"{indent}{start}", f"{indent}while {test}:", f"{indent}    {k} += 1"]
        if test == "True":
            ends = self.random.choice((f"{k} > 4", f"{k} > 4 or ({self.test()})"))
            self.lines += [f"{indent}    if {ends}:", f"{indent}        break"]
        self.block(indent + "    ", self.loops)
        if test != "True":
            self.otherwise(indent, loop)

    def otherwise(self, indent, loop):
        if self.random.random() < 0.25:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", loop)

    def jump(self, indent, loop):
        jump = self.random.choice(("break", "continue"))
        if self.random.random() < 0.8:
            self.lines += [f"{indent}if {self.test()}:", f"{indent}    {jump}"]
        else:
            self.lines.append(f"{indent}{jump}")

    def early(self, indent, loop):
        self.lines += [f"{indent}if {self.test()}:", f"{indent}    return {self.number()}"]

    # ---- expressions

    def name(self):
        return self.random.choice(NUMBERS[:3])

    def constant(self):
        return self.random.choice(("0.3", "0.7", "1.25", "-0.4"))

    def number(self, depth=0):
        p, q = self.random.choice(NUMBERS), self.random.choice((self.constant(), self.name()))
        more = (
            [f"helper({p})", f"helper({p}, q={q})", f"({p} if {self.test()} else {q})", f"add({q})"]
            if depth == 0
            else []
        )
        return self.random.choice(
            [
                f"0.5 * {p} + {q}",
                f"{p} * {q} * 0.25",
                f"abs({p}) - {q}",
                f"max({p}, {q})",
                f"min({p}, {q}, 1.0)",
                "sum(v) * 0.1",
                "np.tanh(xs[0] * b)",
                f"np.sin({p}) * v[1]",
                *more,
            ]
        )

    def test(self):
        p, q, r = self.random.choice(NUMBERS), self.constant(), self.name()
        comparison = f"{p} {self.random.choice(COMPARISONS)} {q}"
        return self.random.choice(
            [
                comparison,
                comparison,
                f"not {comparison}",
                f"{comparison} and {r} < 1.5",
                f"{comparison} or v[0] > {r}",
                f"-2.0 < {p} <= {r}",
                f"any([{comparison}, {r} > 2])",
                f"all([{comparison}, {r} > -3])",
            ]
        )
