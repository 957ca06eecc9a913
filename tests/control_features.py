"""Templates of statements and expressions that `control_programs` fills, and the features that programs draw from.

A feature is a way to keep, share or compute values that a compiler of control flow has to understand: closures,
objects, dicts, iterators, aliases, generators, exceptions, recursion. Lines of hyphens separate statements; expressions
and tests stand one a line. `control_programs` lists the places in braces.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """A way to keep or share values: what it adds to a program."""

    module: str = ""
    setup: str = ""
    places: str = ""
    vectors: str = ""
    reads: str = ""
    tests: str = ""
    changes: str = ""
    persistent: bool = False  # whether a call sees what the calls before it have left
    weight: float = 1.0


ORDINARY = """
{S} = {s}
{S} = {s}
{S} = 0.5 * {S} + {s}
{S} += 0.3 * {s}
{S} -= {c} * {v}[{i}]
{S} *= {c}
a, b = {s}, {s}
b, c = c, {s}
{v} = np.sin({w}) + {s} * 0.1
{v} = {v} * {c} + 0.5 * {w}
{v} *= {c}
{v} += 0.1 * x
{v} -= {s} * 0.1
{v}[{i}] = {s}
{v}[{i}] += {c}
{v}[1:] += {c} * {w}[:-1]
{v}[1:] *= {c}
{v} = np.where({v} > {c}, {w} * 0.5, {v})
{v} = np.concatenate([{v}[1:], {v}[:1]])
k = k + 1
k += {few}
"""

BRANCHES = """
if {t}:
    {block}
---
if {t}:
    {block}
else:
    {block}
---
if {t}:
    {block}
elif {t}:
    {block}
else:
    {block}
---
{S} = {s} if {t} else {s}
---
if {t}:
    {S} = {s}
---
if {t}:
    {v}[{i}] = {s}
---
if {d}:
    {block}
---
if {t}:
    {S} = {s}
    return {s}
"""

LOOPS = """
for i# in range({few}):
    {S} = 0.5 * {S} + {s} + 0.1 * i#
    {block}
---
for i# in range({many}):
    {S} = 0.5 * {S} + 0.1 * {v}[i# % n]
    {block}
---
for i# in range({many}):
    {block}
---
for i# in range(n):
    {v}[i#] = 0.5 * {v}[i#] + 0.1 * {s}
    {block}
---
for i# in range(n - 1, -1, -1):
    {S} = 0.5 * {S} + 0.3 * {v}[i#]
---
for i# in range(4 * n):
    {block}
---
for e# in x:
    {S} = 0.5 * {S} + e# * {c}
    {block}
---
for e# in {v}:
    {S} = 0.5 * {S} + e# * {c}
---
for i#, e# in enumerate(x):
    {S} = 0.7 * {S} + e# * (i# + 1) * 0.1
    {block}
---
for p#, q# in zip(x, {v}):
    {S} = 0.7 * {S} + p# * q# * 0.2
---
for e# in reversed(x):
    {S} = 0.7 * {S} + np.sin(e#)
    {block}
---
k# = 0
while {S} < {c} and k# < {few}:
    k# += 1
    {S} = 0.5 * {S} + 0.7
    {block}
---
k# = 0
while k# < {many}:
    k# += 1
    {S} = 0.8 * {S} + 0.1 * np.cos({s})
    {block}
---
t# = {s}
t# = min(abs(t#), 20.0)
while t# > 0.4:
    t# = t# * 0.6
    {block}
---
t# = np.tanh({s})
while True:
    t# = t# * 0.5 + 1.0
    if t# > 1.7:
        break
    {block}
---
for i# in range({many}):
    if {t}:
        break
    {S} = 0.6 * {S} + {c}
    {block}
else:
    {S} = {s}
---
for i# in range({many}):
    if {t}:
        continue
    {S} = 0.6 * {S} + {c}
    {block}
---
for i# in range({few}):
    for j# in range({many}):
        {S} = 0.6 * {S} + 0.02 * i# * j# * {c}
    {block}
---
for i# in range({many}):
    for j# in range(3):
        {v}[(i# + j#) % n] *= {c}
    {block}
"""

JUMPS = """
if {t}:
    break
---
if {t}:
    continue
---
if {t}:
    {S} = {s}
    continue
---
if {t}:
    return {s}
"""

SCALARS = """
0.5 * {S} + {c}
{S} * {R} * 0.25
{S} - {c} * {R}
abs({S}) - {c}
max({S}, {R})
min({S}, {c}, 1.5)
np.tanh({S})
np.sin({S}) * {v}[{i}]
np.sum({v}) * 0.1
np.dot({v}, {w}) * 0.1
sum({v}) * 0.1
{v}[{i}]
{v}[{i}] * {S}
np.exp(-abs({S}))
1.0 / (1.0 + {S} * {S})
np.max({v}) - {S}
np.mean(np.abs({v}))
0.1 * k + {S}
({S} if {t} else {c} * {R})
np.maximum({S}, {c}) * 0.5
float({c}) * {S}
"""

TESTS = """
{S} > {c}
{S} > {c}
{S} < {c}
{S} <= {R}
{v}[{i}] > {c}
np.sum({v}) > {c}
not {S} > {c}
{S} > {c} and {S} < 1.5
{S} < {c} or {v}[{i}] > {R}
{c} - 2.0 < {S} <= {R} + 1.0
any([{S} > {c}, {S} > 2.0])
all([{S} > {c}, {v}[0] < 3.0])
any(e > {c} for e in {v})
not ({S} > {c} and {v}[{i}] < {c})
(1.0 if {S} > {c} else {S}) > {c}
"""

KNOWN = """
k % 2 == 0
k % 3 != 1
k > 3
n > 4
isinstance(k, int) and k > 1
"""

FEATURES = {
    # ---- names of enclosing functions, of the module, of cells
    "nonlocal": Feature(
        setup="""
            memory = 0.3

            def remember(p):
                nonlocal memory
                memory = 0.5 * memory + 0.3 * p
                return memory
            """,
        places="memory",
        reads="remember({s})",
        changes="remember({s})",
    ),
    "nonlocal under a test": Feature(
        setup="""
            chosen = 0.3

            def choose(p):
                nonlocal chosen
                if p > {c}:
                    chosen = 0.5 * p
            """,
        places="chosen",
        changes="""
            choose({s})
            ---
            if {t}:
                choose({S})
            """,
    ),
    "nonlocal of the result": Feature(
        setup="""
            status = 1.0

            def decide():
                nonlocal status
                if {t0}:
                    status = 2.0

            decide()
            """,
        reads="status",
        tests="status > 1.5",
        changes="decide()",
    ),
    "closure": Feature(
        setup="""
            def accumulator(start):
                total = start

                def add(p):
                    nonlocal total
                    total = 0.7 * total + 0.2 * p
                    return total

                return add

            first, second = accumulator(0.1), accumulator(y)
            """,
        reads="""
            first({s})
            second({c})
            """,
        changes="""
            first({s})
            ---
            {S} = second({S}) - first({c})
            ---
            first, second = second, first
            """,
    ),
    "closure in a test": Feature(
        setup="""
            budget = 1.0

            def spent(p):
                nonlocal budget
                budget = budget - 0.1 - 0.02 * abs(p)
                return budget
            """,
        reads="budget",
        tests="spent({S}) > 0.3",
        changes="""
            while spent({S}) > {c} - 1.0:
                {S} = 0.5 * {S} + 0.1
            """,
    ),
    "global": Feature(
        module="""
            TOTAL = 0.25


            def tally(p):
                global TOTAL
                TOTAL = 0.8 * TOTAL + 0.1 * p
                return TOTAL
            """,
        setup="""
            global TOTAL
            TOTAL = 0.25
            """,
        places="TOTAL",
        reads="tally({s})",
        changes="tally({s})",
    ),
    "global that persists": Feature(
        module="""
            CALLS = 0
            LAST = [0.0, 1.0]


            def note(p):
                global CALLS
                CALLS += 1
                LAST[-1] = p
                return p * 0.9
            """,
        reads="""
            0.1 * CALLS
            LAST[0]
            note({s})
            """,
        changes="""
            note({s})
            ---
            LAST[0] = {s}
            """,
        persistent=True,
    ),
    "global dict": Feature(
        module="STATE = {'p': 0.5, 'q': 1.0}",
        setup="STATE.update(p=0.5, q=1.0)",
        places="""
            STATE['p']
            STATE['q']
            """,
        changes="STATE['p'], STATE['q'] = STATE['q'], STATE['p']",
    ),
    "global array": Feature(
        module="""
            WORK = np.zeros(4)
            WEIGHTS = np.array([0.5, -0.25, 0.75])
            """,
        setup="WORK[:] = 0.25",
        reads="""
            WEIGHTS[k % 3]
            WORK[1]
            float(np.sum(WORK))
            """,
        changes="""
            WORK[k % 4] += 0.5
            ---
            WORK[1:] *= 0.5
            ---
            for i# in range({many}):
                WORK[i# % 4] += 0.1
            """,
    ),
    # ---- objects
    "object": Feature(
        module="""
            class Cell:
                def __init__(self, value):
                    self.value = value
                    self.count = 0

                def feed(self, p):
                    self.value = 0.6 * self.value + 0.3 * p
                    self.count += 1
                    return self
            """,
        setup="cell = Cell(0.5)",
        places="cell.value",
        reads="""
            cell.feed({s}).value
            0.1 * cell.count
            """,
        changes="""
            cell.feed({s})
            ---
            other# = cell
            other#.value = {s}
            ---
            cell = Cell({s})
            ---
            if {t}:
                cell = Cell({s})
            else:
                cell.feed({s})
            """,
    ),
    "slots": Feature(
        module="""
            class Slot:
                __slots__ = ("value", "step")

                def __init__(self, value):
                    self.value, self.step = value, 0

                def push(self, p):
                    self.step += 1
                    self.value = 0.5 * self.value + 0.2 * p
            """,
        setup="slot = Slot(0.5)",
        places="slot.value",
        reads="0.1 * slot.step",
        changes="""
            slot.push({s})
            ---
            if {t}:
                slot.push({c})
            """,
    ),
    "class attribute": Feature(
        module="""
            class Shared:
                level = 0.5
                table = {"p": 0.1}
            """,
        setup="""
            Shared.level = 0.5
            Shared.table["p"] = 0.1
            """,
        places="""
            Shared.level
            Shared.table['p']
            """,
        changes="Shared.level *= 0.5",
    ),
    "function attribute": Feature(
        module="""
            def meter(p):
                meter.total = 0.5 * meter.total + 0.3 * p
                meter.calls += 1
                return meter.total


            meter.total, meter.calls = 0.0, 0
            """,
        setup="meter.total, meter.calls = 0.1, 0",
        places="meter.total",
        reads="""
            meter({s})
            0.1 * meter.calls
            """,
        changes="meter({s})",
    ),
    "mutable default": Feature(
        setup="""
            def gather(p, store=[0.5, 0.1], seen={"last": 0.2}):
                store[0] = 0.5 * store[0] + 0.2 * p
                store[1], seen["last"] = seen["last"], store[0]
                return store[0] - store[1]
            """,
        reads="gather({s})",
        changes="gather({s})",
    ),
    "dataclass": Feature(
        module="""
            @dataclass
            class Body:
                place: float
                speed: float = 0.1

                def move(self, force):
                    self.speed = 0.8 * self.speed + 0.1 * force
                    self.place += 0.1 * self.speed
            """,
        setup="body = Body(0.5)",
        places="""
            body.place
            body.speed
            """,
        changes="""
            body.move({s})
            ---
            body = replace(body, speed={s})
            """,
    ),
    "dataclass with slots": Feature(
        module="""
            @dataclass(slots=True)
            class Point:
                p: float
                q: float = 0.1
            """,
        setup="point = Point(0.5)",
        places="""
            point.p
            point.q
            """,
        changes="""
            point.p, point.q = point.q, point.p
            ---
            if {t}:
                point.p = {s}
            """,
    ),
    "frozen dataclass": Feature(
        module="""
            @dataclass(frozen=True)
            class Pair:
                p: float
                q: float = 0.1

                def moved(self, step):
                    return Pair(0.5 * self.p + 0.2 * step, self.p)
            """,
        setup="pair = Pair(0.5)",
        reads="""
            pair.p
            pair.moved({s}).q
            """,
        changes="""
            pair = pair.moved({s})
            ---
            pair = replace(pair, q={s})
            ---
            if {t}:
                pair = Pair(pair.q, {s})
            """,
    ),
    "namedtuple": Feature(
        module="Duo = namedtuple('Duo', 'p q')",
        setup="duo = Duo(0.5, y)",
        reads="""
            duo.p
            duo[1]
            sum(duo)
            """,
        changes="""
            duo = Duo(duo.q, {s})
            ---
            duo = duo._replace(p={s})
            ---
            if {t}:
                duo = Duo({s}, {c})
            """,
    ),
    "properties and operators": Feature(
        module="""
            class Dual:
                def __init__(self, p, q):
                    self.p, self._q = p, q

                @property
                def q(self):
                    return self._q

                @q.setter
                def q(self, value):
                    self._q = 0.5 * value

                def __add__(self, other):
                    return Dual(0.5 * (self.p + other.p), 0.5 * (self.q + other.q))

                def __iadd__(self, p):
                    self.p = 0.5 * self.p + 0.2 * p
                    return self

                def __call__(self, p):
                    return self.p * p * 0.5

                def __getitem__(self, i):
                    return (self.p, self._q)[i]

                def __bool__(self):
                    return bool(self.p > 0.2)

                def __lt__(self, other):
                    return self.p < other.p
            """,
        setup="dual, twin = Dual(0.5, y), Dual(y, 0.5)",
        places="""
            dual.p
            dual.q
            twin.p
            """,
        reads="""
            dual({s})
            (dual + twin).q
            dual[k % 2]
            """,
        tests="""
            dual < twin
            dual
            not twin
            """,
        changes="""
            dual += {s}
            ---
            dual = dual + twin
            ---
            dual, twin = twin, dual
            """,
    ),
    "inheritance": Feature(
        module="""
            class Base:
                gain = 0.5

                def step(self, p):
                    self.last = p
                    return p * self.gain


            class Derived(Base):
                gain = 0.7

                def step(self, p):
                    q = super().step(p)
                    if q > 0.3:
                        self.gain = self.gain * 0.9
                    return q + 0.1 * self.last
            """,
        setup="""
            derived = Derived()
            derived.last = 0.1
            """,
        places="derived.last",
        reads="""
            derived.step({s})
            derived.gain
            """,
        changes="derived.step({s})",
    ),
    "setattr": Feature(
        module="""
            class Bag:
                pass
            """,
        setup="""
            bag = Bag()
            for name in ("p", "q"):
                setattr(bag, name, 0.3)
            """,
        places="bag.p",
        reads="""
            getattr(bag, 'q')
            vars(bag)['p']
            bag.__dict__['q']
            sum(vars(bag).values())
            """,
        changes="""
            setattr(bag, 'pq'[k % 2], {s})
            ---
            bag.__dict__['p'] = {s}
            ---
            vars(bag)['q'] = {s}
            """,
    ),
    # ---- containers
    "dict": Feature(
        setup="table = {'p': 0.5, 'q': y}",
        places="""
            table['p']
            table['q']
            """,
        reads="""
            table.get('r', 0.5)
            table.setdefault('p', 0.1)
            sum(table.values())
            0.1 * len(table)
            """,
        changes="""
            for key#, e# in table.items():
                {S} = 0.5 * {S} + 0.2 * e#
            ---
            table['p'] = table.pop('q') + {s}
            table['q'] = {c}
            ---
            table.update(q={s})
            ---
            table = {key: 0.5 * e for key, e in table.items()}
            ---
            for key# in list(table):
                table[key#] = 0.5 * table[key#] + {c}
            ---
            table |= {'q': {s}}
            """,
    ),
    "dict of integers": Feature(
        setup="counts = {0: 0.5, 1: y, 2: 0.25}",
        places="counts[k % 3]",
        reads="counts.get(k % 5, 0.5)",
        changes="""
            counts[k % 3] = {s}
            ---
            for i# in range({many}):
                counts[i# % 3] = 0.5 * counts[i# % 3] + {c}
            """,
    ),
    "growing dict": Feature(
        setup="cache = {}",
        reads="""
            cache.setdefault(k % 4, {s})
            0.1 * len(cache)
            sum(cache.values(), 0.0)
            """,
        tests="k % 4 in cache",
        changes="""
            cache[k % 4] = {s}
            ---
            if k % 4 not in cache:
                cache[k % 4] = {s}
            ---
            cache.pop(k % 4, None)
            """,
    ),
    "defaultdict": Feature(
        setup="sums = defaultdict(float)",
        reads="""
            sums[k % 3]
            sums['p']
            sums['q']
            """,
        changes="""
            sums['p'] += 0.2 * {s}
            ---
            if {t}:
                sums['q'] += {s}
            ---
            sums[k % 3] += {s}
            ---
            for e# in x:
                sums['p'] = 0.5 * sums['p'] + e#
            """,
    ),
    "set": Feature(
        setup="seen = set()",
        reads="0.1 * len(seen)",
        tests="""
            k in seen
            len(seen) > 2
            """,
        changes="""
            seen.add(k)
            ---
            for i# in range({many}):
                seen.add(i# % 7)
                {S} = 0.6 * {S} + 0.05 * len(seen)
            ---
            for i# in range({many}):
                if i# % 5 in seen:
                    {S} = 0.5 * {S} + {c}
                else:
                    seen.add(i# % 5)
            """,
    ),
    "deque": Feature(
        setup="queue = deque([0.5, y, 0.25], maxlen=4)",
        reads="""
            queue[0]
            queue[-1]
            sum(queue)
            0.1 * len(queue)
            """,
        changes="""
            queue.append({s})
            ---
            queue.appendleft({s})
            ---
            queue.rotate(1)
            ---
            queue.append(queue.popleft() * 0.5)
            ---
            for i# in range({many}):
                queue.append(0.5 * queue[0] + {c})
            ---
            if {t}:
                queue[0] = {s}
            """,
    ),
    "list": Feature(
        setup="items = [0.5, y, x[0]]",
        places="""
            items[0]
            items[-1]
            items[-2]
            """,
        reads="""
            sum(items)
            items[k % 3]
            max(items)
            sorted(items)[1]
            items[1:][0]
            """,
        changes="""
            items[k % 3] = {s}
            ---
            items.reverse()
            ---
            items[0], items[-1] = items[-1], items[0]
            ---
            items = [0.5 * e for e in items]
            ---
            items.append(items.pop(0))
            ---
            items.insert(0, {s})
            items.pop()
            ---
            items[1:] = [{s}, {c}]
            ---
            for i#, e# in enumerate(items):
                items[i#] = 0.5 * e# + {s} * 0.1
            ---
            items.sort()
            """,
    ),
    "growing list": Feature(
        setup="log = [0.5, y]",
        places="""
            log[-1]
            log[-2]
            """,
        reads="""
            log[0]
            sum(log) / len(log)
            np.mean(log)
            np.array(log)[-1]
            """,
        changes="""
            log.append({s})
            ---
            for i# in range({many}):
                log.append(0.5 * log[-1] + {c})
            ---
            for i# in range({many}):
                log.append({s})
                log[-1] *= 0.5
            ---
            for i# in range({many}):
                log.append({s})
                log[-2] += {c}
            ---
            for e# in x:
                log.append(0.5 * e#)
            {S} = 0.3 * sum(log)
            ---
            log += [{s}]
            ---
            log.extend(0.5 * e for e in x)
            """,
    ),
    "list that grows in front": Feature(
        setup="sums = [0.5, y]",
        places="""
            sums[0]
            sums[1]
            """,
        reads="""
            sums[-1]
            sums[2]
            0.1 * sum(sums)
            np.mean(sums)
            np.array(sums)[0]
            """,
        changes="""
            sums.insert(0, {s})
            ---
            for i# in range({many}):
                sums.insert(0, 0.5 * sums[0] + {c})
            ---
            sums = []
            for i# in range({many}):
                sums.insert(0, {s} + 0.1 * i#)
            ---
            sums = [{s}]
            for i# in range({many}):
                sums.insert(0, 0.5 * sums[0] + 0.1 * sums[-1])
            ---
            sums = [{s}]
            for i# in range({many}):
                sums.insert(0, {s})
                sums[0] *= 0.5
            ---
            for i# in range({many}):
                sums.insert(0, {s})
                sums[1] += {c}
            ---
            for i# in range({many}):
                if {t}:
                    sums.insert(0, {s})
                else:
                    sums.insert(0, 0.5 * sums[0])
            ---
            for i# in range({many}):
                sums.insert(0, {s})
                if {t}:
                    break
            ---
            for i# in range({many}):
                for _ in range(2):
                    sums.insert(0, 0.5 * sums[0] + 0.1 * i#)
            ---
            for i# in range({many}):
                sums.append({s})
            for i# in range({many}):
                sums.insert(0, 0.3 * sums[1] + {c})
            ---
            for i# in range({many}):
                sums.insert(0, {s})
                sums.append({c})
            ---
            for i# in range({many}):
                sums.insert(1, {s})
            ---
            for e# in x[::-1]:
                sums.insert(0, e# + 0.9 * sums[0])
            {S} = 0.3 * sum(sums)
            ---
            backward = [{v} * 0.5]
            for i# in range({many}):
                backward.insert(0, 0.5 * backward[0] + 0.1 * {w})
            {v} = backward[0] + backward[-1]
            ---
            backward = [{v}, {w}]
            for i# in range({many}):
                backward.insert(0, backward[0] * 0.5 + {s})
                backward[1][{i}] = {c}
            {v} = backward[-1] + backward[0]
            """,
    ),
    "list of whole numbers": Feature(
        setup="""
            steps = [1, 2]
            """,
        reads="""
            0.1 * steps[-1]
            0.1 * sum(steps)
            0.1 * steps[0]
            """,
        changes="""
            steps = [k, k + 1]
            for i# in range({many}):
                steps.append(i# // 2)
            ---
            steps = [k]
            for i# in range({many}):
                steps.append(i# - k)
                if {t}:
                    break
            ---
            for i# in range({many}):
                steps.append(k if {t} else i#)
            ---
            steps[0] = {s}
            ---
            steps[0] += 2
            ---
            steps.append({s})
            ---
            for e in steps:
                b = b * 0.5 + (0.1 if isinstance(e, int) else 0.2)
            ---
            for i#, e in enumerate(steps):
                b = 0.5 * b + 0.1 * (e // 2) / (i# + 1)
            ---
            steps = sorted(steps)
            """,
    ),
    "list read by number": Feature(
        setup="past = [0.5, y]",
        places="past[-1]",
        reads="""
            past[0]
            past[1]
            0.1 * sum(past)
            """,
        changes="""
            past = [{s}]
            for i# in range({many}):
                past.append(0.5 * past[i#] + {c})
            ---
            past = [{s}, {c}]
            for i# in range(2, {many}):
                past.append(0.5 * past[i# - 1] - 0.3 * past[i# - 2] + {s})
            ---
            for i# in range({many}):
                past.append(0.5 * past[i#] + 0.1 * past[i# + 1])
            ---
            past = [{s}, {c}]
            for i# in range({many}):
                if past[i#] > {c}:
                    past.append(0.5 * past[i# + 1])
                else:
                    past.append({s})
            ---
            past = [{s}, {c}]
            for i# in range({many}):
                past.append(0.5 * past[i#])
                if {t}:
                    past[-1] += {c}
            ---
            past = [{s}, {c}]
            for i# in range({many}):
                if {t}:
                    break
                past.append(0.5 * past[i#] + {c})
            ---
            past = [{s}, {c}]
            for i# in range({many}):
                past.append(0.5 * past[i# - 1])
            ---
            past = [{s}, {c}]
            for i# in range({many}):
                past.append(0.5 * past[i#])
                past.append({s})
            ---
            states = [{v} * 0.5]
            for i# in range({many}):
                states.append(0.5 * states[i#] + 0.1 * {w})
            {v} = states[-1] * 1.0
            ---
            states = [{v}, {w}]
            for i# in range({many}):
                states.append(states[i#] * 0.5 + {s})
                states[i#][{i}] = {c}
            {v} = states[-1] + states[0]
            """,
    ),
    "list under tests": Feature(
        setup="marks = [0.5]",
        reads="""
            sum(marks) * 0.1
            0.1 * len(marks)
            marks[-1]
            sum([e * e for e in marks]) * 0.1
            """,
        changes="""
            if {t}:
                marks.append({s})
            ---
            if {t}:
                marks += [{s}, {c}]
            else:
                marks.append({s})
            ---
            for i# in range({many}):
                marks.append(0.5 * marks[-1] + {c})
            ---
            marks.append({s})
            ---
            for e# in x:
                if e# > {c}:
                    marks.append(e#)
            """,
    ),
    "list of lists": Feature(
        setup="""
            rows = [[0.5, y], [0.25, 1.0]]
            row = rows[0]
            """,
        places="""
            rows[0][1]
            row[0]
            """,
        reads="sum(rows[1])",
        changes="""
            row[1] = {s}
            ---
            rows[0], rows[1] = rows[1], rows[0]
            ---
            row = rows[k % 2]
            ---
            rows[1] = list(row)
            """,
    ),
    "list of arrays": Feature(
        setup="layers = [x * 0.5, x + 0.1]",
        vectors="""
            layers[0]
            layers[-1]
            """,
        changes="""
            layers[0], layers[-1] = layers[-1], layers[0]
            ---
            layers.append({v} * 0.5)
            layers.pop(0)
            """,
    ),
    "tuple": Feature(
        setup="state = (0.5, y)",
        reads="""
            state[0]
            state[-1]
            """,
        changes="""
            state = (state[1], {s})
            ---
            p#, q# = state
            state = (q# * 0.5, p# + 0.1)
            ---
            if {t}:
                state = (*state[1:], {s})
            """,
    ),
    "array.array": Feature(
        setup="raw = array.array('d', [0.5, 1.0, 0.25])",
        reads="""
            raw[0]
            raw[k % 3]
            """,
        changes="""
            raw[0] = 0.5 * raw[0]
            ---
            for i# in range({many}):
                raw[i# % 3] += 0.1
                {S} = 0.5 * {S} + raw[0]
            """,
        weight=0.5,
    ),
    "bytearray": Feature(
        setup="flags = bytearray(4)",
        reads="""
            0.1 * flags[0]
            0.1 * flags[k % 4]
            """,
        tests="flags[k % 4]",
        changes="""
            flags[k % 4] = 1
            ---
            for i# in range({many}):
                flags[i# % 4] += 1
                {S} = 0.5 * {S} + 0.1 * flags[1]
            """,
        weight=0.5,
    ),
    # ---- iterators and generators
    "iterator": Feature(
        setup="it = iter([0.5, 0.25, 0.75, 0.1, 0.3] * 60)",
        reads="""
            next(it)
            next(it, 0.0)
            """,
        changes="""
            {S} = 0.5 * {S} + next(it)
            ---
            for i# in range({many}):
                {S} = 0.5 * {S} + next(it)
            """,
    ),
    "iterator of traced values": Feature(
        setup="feed = iter(x)",
        reads="next(feed, 0.5)",
        changes="""
            {S} = 0.5 * {S} + next(feed, y)
            ---
            for e# in feed:
                {S} = 0.5 * {S} + e#
                break
            """,
    ),
    "itertools.count": Feature(
        setup="ticks = itertools.count(1)",
        reads="0.1 * next(ticks)",
        tests="next(ticks) % 3 == 0",
        changes="""
            for i# in range({many}):
                {S} = 0.5 * {S} + 0.01 * next(ticks)
            """,
    ),
    "itertools.cycle": Feature(
        setup="wheel = itertools.cycle([0.5, -0.25, 0.1])",
        reads="next(wheel)",
        changes="""
            for i# in range({many}):
                {S} = 0.5 * {S} + next(wheel)
            """,
    ),
    "itertools": Feature(
        reads="""
            sum(itertools.accumulate(x, lambda p, q: 0.5 * p + q))
            sum(p * q for p, q in itertools.pairwise(x)) * 0.2
            sum(p * q for p, q in itertools.combinations(x[:3], 2)) * 0.2
            functools.reduce(lambda p, q: 0.5 * p + q, x, {S})
            """,
        changes="""
            for p#, q# in itertools.pairwise(x):
                {S} = 0.5 * {S} + p# * q#
            """,
    ),
    "generator": Feature(
        setup="""
            def walk():
                p = 0.5
                while True:
                    p = 0.7 * p + 0.1
                    yield p

            walker = walk()
            """,
        reads="next(walker)",
        changes="""
            {S} = 0.5 * {S} + next(walker)
            ---
            for i# in range({many}):
                {S} = 0.5 * {S} + next(walker)
            """,
    ),
    "generator of traced values": Feature(
        setup="""
            def stream(p):
                for e in x:
                    p = 0.5 * p + e
                    yield p
            """,
        reads="""
            sum(stream({s})) * 0.2
            max(stream({s}))
            list(stream({s}))[-1]
            """,
        changes="""
            for e# in stream({s}):
                {S} = 0.5 * {S} + 0.1 * e#
            """,
    ),
    # ---- aliases
    "alias": Feature(
        setup="w = v",
        vectors="w",
        changes="""
            w = v
            ---
            w = u
            ---
            if {t}:
                v[0] -= 2.0
                w -= 0.5 * np.sin(x)
            ---
            if {t}:
                w = v
            w[0] += {c}
            """,
    ),
    "view": Feature(
        setup="part = v[1:]",
        reads="""
            part[0]
            np.sum(part) * 0.1
            """,
        changes="""
            part[0] = {s}
            ---
            part *= {c}
            ---
            part = {v}[1:]
            ---
            if {t}:
                part[-1] = {s}
            ---
            {v}[::-1][0] = {s}
            """,
    ),
    "swapped names": Feature(
        changes="""
            u, v = v, u
            ---
            for i# in range({many}):
                u, v = v, u
                v[1:] -= 0.3 * {c}
            ---
            for e# in v:
                u, v = v, u
                v[0] = 0.5 * v[0] + 0.1 * e#
            ---
            for i# in range({many}):
                u, v = v, 0.5 * u + 0.3 * v
            ---
            a, b, c = b, c, a
            ---
            if {t}:
                u, v = v, u
            """,
    ),
    "matrix": Feature(
        setup="""
            A = np.outer(x, x) * 0.2
            B = A
            """,
        reads="""
            np.trace(A) * 0.2
            A[0, 1]
            B[-1, 0]
            np.sum(A, axis=0)[1] * 0.1
            """,
        changes="""
            B[k % n] *= 0.9
            ---
            A[:, 0] = {v}
            ---
            A = A.T
            ---
            B = A
            A = 0.5 * A + 0.1
            ---
            for i# in range({many}):
                B[i# % n] *= 0.9
            ---
            for i# in range(n):
                for j# in range(i#):
                    A[i#, j#] = 0.5 * A[j#, i#] + {c}
            ---
            B.T[0] += 0.1
            ---
            A = np.tanh(np.dot(A, B))
            ---
            for r# in A:
                {S} = 0.5 * {S} + 0.1 * np.sum(r#)
            ---
            if {t}:
                A[0] = {s}
            ---
            {v} = np.dot(A, {v}) * 0.5
            ---
            B.ravel()[0] = {s}
            ---
            B.reshape(-1)[1] += {c}
            """,
    ),
    "out": Feature(
        changes="""
            np.multiply({v}, 0.5, out=v)
            ---
            np.add(u, {c}, out=u, where=u > 0)
            ---
            np.add.at(v, [0, 0, 1], 0.1)
            ---
            np.copyto(u, v)
            ---
            v.fill(0.5)
            v[0] = {s}
            ---
            np.put(v, [0], 0.3)
            ---
            u[u > {c}] = 0.5
            ---
            v[[0, 1]] = v[[1, 0]]
            ---
            u[:] = v
            ---
            u[v > 0] *= 0.5
            """,
    ),
    # ---- expressions and statements
    "walrus": Feature(
        setup="h = y",
        places="h",
        reads="""
            (h := 0.5 * h + {c})
            sum(g# * g# for e in x if (g# := 0.5 * e) > {c}) * 0.2
            """,
        tests="(h := {s}) > {c}",
        changes="""
            h = min(h, 2.0)
            while (h := 0.7 * h + 0.5) < 1.4:
                {block}
            ---
            h = min(h, 2.0)
            while (h := 0.7 * h + 0.5) < 1.4:
                pass
            ---
            if (g# := {s}) > {c}:
                h = g#
            else:
                h = 0.5 * g#
            ---
            {S} = sum([(h := 0.5 * h + e) for e in x]) * 0.1
            """,
    ),
    "try": Feature(
        module="""
            def checked(p):
                try:
                    if len(p) < 2:
                        raise ValueError("short")
                    return p[0] * 0.5
                finally:
                    LIST.append(1)


            LIST = []
            """,
        reads="checked({v})",
        changes="""
            try:
                {S} = {s}
                [][k]
            except IndexError:
                {S} = 0.5 * {S} + {c}
            ---
            try:
                {block}
            finally:
                {S} = {s}
            ---
            for i# in range({few}):
                try:
                    if i# == 2:
                        continue
                    {S} = {s}
                finally:
                    {S} = 0.5 * {S} + 0.1
            ---
            try:
                {S} = {'p': 0.5}['q']
            except KeyError as missing:
                {S} = 0.1 * len(missing.args) + {s}
            else:
                {S} = 1.0
            ---
            try:
                {block}
            except ZeroDivisionError:
                pass
            else:
                {S} = {s}
            """,
    ),
    "with": Feature(
        module="""
            class Scope:
                depth = 0

                def __enter__(self):
                    Scope.depth += 1
                    return self

                def __exit__(self, *_):
                    Scope.depth -= 1


            @contextlib.contextmanager
            def scaled(store):
                store.append(0.5)
                try:
                    yield store[-1]
                finally:
                    store.pop()
            """,
        setup="store = [1.0]",
        reads="""
            store[-1]
            0.1 * Scope.depth
            """,
        changes="""
            with Scope():
                {block}
            ---
            with scaled(store) as q#:
                {S} = q# * {s}
            ---
            with np.errstate(all="ignore"), contextlib.suppress(KeyError):
                {S} = {s}
                {block}
            ---
            for i# in range({many}):
                with scaled(store) as q#:
                    {S} = 0.5 * {S} + q# * {c}
            """,
    ),
    "comprehension": Feature(
        reads="""
            sum([0.5 * e for e in x if e > {c}])
            sum([p * q for p in x[:2] for q in {w}[:2]]) * 0.2
            sum([sum([p * q for q in x]) for p in {v}]) * 0.1
            np.sum(np.array([np.sin(e) * {S} for e in x]))
            [e * {S} for e in {v}][-1]
            sum({i: e for i, e in enumerate(x)}.values())
            np.array([[p - q for q in x] for p in x])[0, 1]
            max(p - q for p, q in zip(x, {v}))
            sum(sum(p * q for q in x if q > p) for p in x) * 0.1
            np.mean([0.1 * i * {S} for i in range({many})])
            """,
        tests="""
            all(e < 3.0 for e in {v})
            any(e > {S} for e in x)
            """,
        changes="""
            {v} = np.array([0.5 * e + {S} for e in {v}])
            ---
            {S} = sum([0.1 * e * i for i, e in enumerate({v})])
            """,
    ),
    "recursion": Feature(
        setup="""
            def descend(p, depth):
                if depth == 0:
                    return p
                return 0.5 * descend(0.7 * p + 0.1, depth - 1) + 0.1 * p

            def halves(p):
                if len(p) == 1:
                    return p[0]
                m = len(p) // 2
                return 0.5 * halves(p[:m]) + halves(p[m:])
            """,
        reads="""
            descend({s}, {few})
            halves({v})
            """,
        changes="{S} = descend({S}, 2) - halves({v})",
    ),
    "recursion on a traced value": Feature(
        setup="""
            def shrink(p, depth=0):
                if p < 0.5 or depth > 12:
                    return p
                return 0.9 * shrink(0.6 * p, depth + 1) + 0.05
            """,
        reads="shrink({s})",
        changes="{S} = shrink({S})",
        weight=0.5,
    ),
    "match": Feature(
        changes="""
            match k % 3:
                case 0:
                    {S} = {s}
                case 1 | 2 if k > 2:
                    {S} = 0.5 * {S}
                case _:
                    {S} += {c}
            ---
            match ({S}, k):
                case (p#, 2):
                    {S} = 0.5 * p#
                case (p#, q#):
                    {S} = p# * 0.3 + 0.1 * q#
            ---
            match {'kind': 'p', 'value': {s}}:
                case {'kind': 'p', 'value': p#}:
                    {S} = p#
                case _:
                    {S} = {c}
            ---
            match [{s}, {c}]:
                case [p#, *rest#] if p# > {c}:
                    {S} = p# + rest#[0]
                case [p#, *_]:
                    {S} = 0.5 * p#
            """,
    ),
    "lambdas in loops": Feature(
        setup="""
            late, early = [], []
            for i in range(3):
                late.append(lambda p: 0.5 * p + 0.1 * i)
                early.append(lambda p, i=i: 0.5 * p + 0.1 * i)
            """,
        reads="""
            late[k % 3]({s})
            early[k % 3]({s})
            sum(g({S}) for g in late) * 0.3
            """,
        changes="""
            for g# in early:
                {S} = g#({S})
            ---
            i = k
            ---
            g# = (lambda p: 0.5 * p) if {t} else (lambda p: 0.3 * p + 0.1)
            {S} = g#({S})
            """,
    ),
    "partial": Feature(
        module="""
            def blend(store, p, rate=0.5):
                store[0] = (1.0 - rate) * store[0] + 0.5 * rate * p
                return store[0]
            """,
        setup="""
            kept = [0.5]
            mix = functools.partial(blend, kept, rate=0.3)
            """,
        places="kept[0]",
        reads="mix({s})",
        changes="""
            mix({s})
            ---
            mix = functools.partial(blend, kept, rate=0.6)
            """,
    ),
    "stars": Feature(
        setup="""
            def combine(*args, scale=0.5, **kwargs):
                total = sum(args) * scale
                for e in kwargs.values():
                    total = total + 0.1 * e
                return total
            """,
        reads="""
            combine({s}, {S})
            combine(*x)
            combine(*[{S}, {c}], scale=0.2, q={s})
            """,
        changes="""
            head#, *tail# = x
            {S} = 0.5 * head# + 0.1 * sum(tail#)
            """,
    ),
    "builtins": Feature(
        reads="""
            sorted(x)[0]
            sorted({v}, reverse=True)[1]
            sorted(x, key=lambda e: abs(e))[-1]
            max(x, key=lambda e: np.sin(e))
            sum(p * q for p, q in zip(x, reversed({v}))) * 0.2
            sum(map(np.sin, x)) * 0.2
            sum(filter(lambda e: e > {c}, x)) * 0.2
            min(({s}, {S}))
            max({v}) - min({v})
            round(0.37, 1) * {S}
            divmod(k, 3)[1] * 0.1
            pow({S}, 2) * 0.1
            sum(x, {S}) * 0.2
            abs(sum(e for e in x))
            """,
        tests="""
            all(map(lambda e: e < 3.0, x))
            {S} in ({R}, 0.5)
            {R} == max({R}, {S})
            """,
        changes="""
            for i#, (p#, q#) in enumerate(zip(x, {v}), 1):
                {S} = 0.5 * {S} + 0.1 * i# * p# * q#
            """,
    ),
    "text": Feature(
        setup="""
            words = {'mode2': 0.5, 'mode3': 0.25}
            label = 'mode'
            """,
        reads="""
            words.get(f'{label}{k}', 0.1)
            0.1 * len(f'{k:03d}')
            words.get(label + '2', 0.3)
            0.1 * len(label)
            """,
        tests="""
            label == 'mode'
            label.startswith('m')
            f'mode{k}' in words
            """,
        changes="""
            label = label + 'x'
            ---
            if label == 'mode':
                {S} = {s}
            else:
                {S} = 0.5 * {S}
            ---
            for letter# in 'abca':
                if letter# == 'a':
                    {S} = 0.5 * {S} + {c}
            ---
            words['mode2'] = {s}
            """,
    ),
    "traced keys and text": Feature(
        setup="""
            signs = {1.0: 0.5, -1.0: 0.25}
            tally = defaultdict(float)
            """,
        reads="""
            signs.get(np.sign({S}), 0.1)
            0.1 * len({np.sign({S}), np.sign({R})})
            tally[np.sign({S})]
            0.1 * len(str(np.sign({S})))
            signs.get(np.sign({v}[{i}]), 0.1)
            """,
        tests="""
            np.sign({S}) in {1.0, 2.0}
            str(float(np.sign({S}))) == '1.0'
            str(np.sign({S})) == '1.0'
            np.sign({S}) in signs
            f'{np.sign({S}):.0f}' == '1'
            """,
        changes="""
            tally[np.sign({S})] += {s}
            ---
            for e# in x:
                {S} = 0.5 * {S} + signs.get(np.sign(e#), 0.1)
            """,
        weight=0.5,
    ),
    "integers": Feature(
        setup="bits = 5",
        reads="""
            0.1 * (bits % 4)
            0.1 * (bits & 3)
            -0.1 * ~(bits % 3)
            0.1 * (bits // 2 ^ 1)
            0.05 * (bits >> 1)
            """,
        tests="""
            bits & 1
            bits % 3 == 1
            bits | 2 == 7
            """,
        changes="""
            bits = (bits * 5 + 3) % 16
            ---
            bits ^= 6
            ---
            bits = ~bits & 15
            ---
            for i# in range({many}):
                {S} = 0.5 * {S} - 0.01 * ~i#
            ---
            for i# in range({many}):
                bits = (bits * 5 + i#) % 16
                {S} = 0.5 * {S} + 0.05 * (bits & 3)
            ---
            for i# in range({many}):
                if i# & 1:
                    {S} = 0.5 * {S} + {c}
                elif i# // 3 % 2:
                    {S} -= 0.1
            ---
            for i# in range({many}):
                bits += 1
            ---
            if {t}:
                bits = bits ^ 3
            """,
    ),
    "flags": Feature(
        setup="done, found = False, None",
        reads="""
            (1.0 if done else 0.5)
            (0.1 if found is None else found)
            (found or 0.3)
            """,
        tests="""
            done
            not done
            found is None
            found
            not found
            found == None
            done is True
            done is not False
            found is not None and found > 0.2
            done or {S} > {c}
            """,
        changes="""
            done = not done
            ---
            done = {S} > {c}
            ---
            for e# in x:
                if e# > {c} and found is None:
                    found = e#
            ---
            if {t}:
                done = True
            ---
            found = {s}
            ---
            found = None if {t} else {s}
            ---
            found = None
            for i# in range({many}):
                found = 0.5 * {c} if found is None else found * 0.9
            ---
            for i# in range({many}):
                done = not done
                if done:
                    {S} = 0.5 * {S} + {c}
            ---
            done = done or {S} > {c}
            ---
            done ^= True
            """,
    ),
    "chained assignment": Feature(
        setup="g = h = 0.5",
        places="""
            g
            h
            """,
        changes="""
            g = h = {s}
            ---
            g, (h, a) = {s}, ({s}, {c})
            ---
            u = v = 0.5 * {v}
            ---
            del g
            g = {s}
            """,
    ),
    "loop variables after loops": Feature(
        setup="e = p = 0.1",
        reads="""
            e
            p
            """,
        changes="""
            for e in x:
                {S} = 0.5 * {S} + e
            ---
            for p in (0.1, 0.2):
                pass
            ---
            for i# in range({many}):
                p = 0.5 * p + {c}
            {S} = p + 0.1 * i#
            ---
            for e in x:
                if e > {c}:
                    break
            ---
            for e in reversed(x):
                e = 0.5 * e
            """,
    ),
    "locals": Feature(
        reads="""
            locals()['a']
            0.5 * locals().get('c', 1.0)
            """,
        weight=0.4,
    ),
    "assert": Feature(
        changes="""
            assert n > 1
            ---
            if n < 2:
                raise ValueError(n)
            ---
            assert k >= 0, 'negative'
            """,
        weight=0.5,
    ),
    "helpers with returns": Feature(
        module="""
            def leaky(p, q=0.1):
                if p > 0.5:
                    return p
                for _ in range(20):
                    p = 0.8 * p + q
                    if p > 0.45:
                        return 0.5 * p
                return q * p


            def norm(p):
                total = 0.0
                for e in p:
                    if e < 0:
                        continue
                    total += e * e
                return total


            def bump(p):
                p[0] = 0.5 * p[0] + 0.1
                p *= 0.9
            """,
        reads="""
            leaky({s})
            leaky({S}, q={c})
            0.2 * norm({v})
            """,
        changes="""
            bump(v)
            ---
            if {t}:
                bump(u)
            ---
            bump({v})
            """,
    ),
    "higher order": Feature(
        setup="""
            def twice(g):
                return lambda p: g(0.5 * g(p))

            def counted(g):
                @functools.wraps(g)
                def inner(p):
                    inner.calls += 1
                    return g(p) * 0.9

                inner.calls = 0
                return inner

            @counted
            def soft(p):
                return np.tanh(p) if p > 0 else 0.5 * p
            """,
        reads="""
            twice(soft)({s})
            soft({s})
            0.1 * soft.calls
            """,
        changes="""
            soft({s})
            ---
            {S} = twice(lambda p: p * {c})({S})
            """,
    ),
    "while with an else": Feature(
        changes="""
            k# = 0
            while k# < {many}:
                k# += 1
                {S} = 0.7 * {S} + 0.1
                if {t}:
                    break
            else:
                {S} = {s}
            ---
            k# = 0
            while not ({S} > 1.5 or k# >= {many}):
                k# += 1
                {S} = 0.7 * {S} + 0.2 * k#
            """,
    ),
    "returns in loops": Feature(
        changes="""
            for e# in x:
                if e# > 1.2:
                    return {s} + e#
                {S} = 0.5 * {S} + e#
            ---
            for i# in range({many}):
                {S} = 0.8 * {S} + 0.1 * i#
                if {S} > 3.0:
                    return {S} * i#
            """,
    ),
    "slices of growing length": Feature(
        changes="""
            for i# in range(1, n):
                {v}[i#] = 0.5 * np.sum({v}[:i#]) * 0.2 + {c}
            ---
            for i# in range(n):
                {S} = 0.5 * {S} + 0.1 * np.sum(x[i#:])
            ---
            for i# in range(n - 1):
                {v}[i# + 1] = 0.5 * {v}[i#] + 0.1 * {v}[i# + 1]
            """,
    ),
    "integer arrays": Feature(
        setup="order = np.array([1, 0, 2])",
        reads="""
            {v}[order[k % 3]]
            np.sum({v}[order]) * 0.1
            0.1 * order[0]
            """,
        changes="""
            for i# in order:
                {S} = 0.5 * {S} + {v}[i#]
            ---
            order = order[::-1]
            ---
            order[0], order[1] = order[1], order[0]
            ---
            {v}[order] *= 0.5
            """,
    ),
    "float32": Feature(
        setup="narrow = x.astype(np.float32)",
        reads="""
            float(narrow[0].dtype == np.float32)
            np.sum(narrow) * 0.1
            narrow[1] * {c}
            """,
        changes="""
            narrow = narrow * 0.5 + 0.1
            ---
            for i# in range({many}):
                narrow = 0.5 * narrow + np.float32(0.1)
            ---
            if {t}:
                narrow[0] = 0.5
            """,
        weight=0.5,
    ),
    "other types at first": Feature(
        setup="total, before, last, small = 0, None, None, (np.abs(x) * 90).astype(np.uint8)",
        reads="""
            np.sum(total + v)
            (0.3 if last is None else np.sum(last))
            float(small.dtype == np.uint8)
            np.sum(small * 0.01)
            """,
        changes="""
            for i# in range({many}):
                total = 0.5 * total + 0.1 * {v}
            ---
            total = 0
            for e# in x:
                total = 0.5 * total + e# * {w}
                {block}
            ---
            for i# in range({many}):
                now# = 0.5 * {v} + 0.1 * {s}
                if before is not None:
                    now# = now# + 0.1 * last * before
                before, last = last, np.tanh(now#)
            ---
            last = None
            for i# in range({many}):
                last = {v} * 0.5 if last is None else 0.5 * last + 0.1 * {v}
                if {t}:
                    break
                {block}
            ---
            for i# in range({many}):
                small = (small + small) * 0.45
            ---
            for i# in range({many}):
                small = small // 3 + small * 0.5
                {block}
            ---
            k# = 0
            while k# < {many}:
                total = total * 0.5 + {c} * {v}
                k# += 1
            """,
    ),
}
