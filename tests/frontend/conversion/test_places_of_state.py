"""Places where a body may find state: each is put back between the sides of a branch, and carried or chosen."""

import collections
import contextvars
import functools
import io
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import symgrad as sg


class Bag(dict):
    """A dict with attributes."""


class Items(list):
    """A list with attributes."""


class Queue(collections.deque):
    """A deque with attributes."""


class Holder:
    def __init__(self):
        self.items = [1.0]


class Pair(collections.namedtuple("Pair", "items number")):
    """A tuple with attributes and items."""


def made():
    """Return an object whose methods alone know a list, and the list."""
    log = [1.0]

    class Closed:
        def put(self, x, own=[1.0]):  # noqa: B006
            log.append(x)
            own[0] = x
            return own

        def total(self):
            return sum(log) + self.put.__func__.__defaults__[0][0]

        @property
        def last(self):
            return log[-1]

        @last.setter
        def last(self, x):
            log[-1] = x

        @staticmethod
        def put_first(x):
            log[0] = x

        @classmethod
        def put_twice(cls, x):
            log[0] = 2 * x

        def __call__(self, x):
            log[0] = x

        def __getitem__(self, i):
            return log[i]

        def __setitem__(self, i, x):
            log[i] = x

        def __add__(self, x):
            log[0] = 9.0 + x

        def __enter__(self):
            log[0] = 5.0

        def __exit__(self, *_):
            return None

    return Closed(), log


def methods_of_a_list():
    items = [1.0]
    return items.append, items.__getitem__, items.__len__, items.clear


def counted(f):
    calls = [0.0]

    @functools.wraps(f)
    def called(*args):
        calls[0] += 1.0
        return f(*args) * calls[0]

    return called, calls


CLOSED, LOG = made()
(OWN,) = type(CLOSED).put.__defaults__
append, item, length, clear = methods_of_a_list()
identity, CALLS = counted(lambda x: x)
KEPT = Holder()
REFERENCE = weakref.ref(KEPT)
PAIR = Pair([1.0], 2.0)
PACKAGE = types.ModuleType("package")
PACKAGE.inner = types.ModuleType("package.inner")
PACKAGE.inner.items = [1.0]
KEPT.module = PACKAGE.inner
VARIABLE = contextvars.ContextVar("VARIABLE", default=1.0)


@pytest.fixture(autouse=True)
def fresh():
    def reset():
        LOG[:], OWN[:], CALLS[:], KEPT.items[:], PAIR.items[:] = [1.0], [1.0], [0.0], [1.0], [1.0]
        PACKAGE.inner.items[:], PACKAGE.inner.number = [1.0], 1.0
        clear()
        append(1.0)

    reset()
    return reset


def attribute_of_a_dict(x):
    bag = Bag(a=2.0)
    bag.n = 1.0
    if x > 0:
        bag.n = bag.n + x
        bag["a"] = x
    return bag.n + bag["a"]


def attribute_of_a_list_in_a_loop(x):
    items = Items([1.0])
    items.n = 1.0
    for _ in range(20):
        items.n = items.n * 0.5 + x
    return items.n + items[0]


def attribute_of_a_deque(x):
    queue = Queue([1.0, 2.0])
    queue.n = 0.0
    if x > 0:
        queue.n = x
        queue[0] = 5.0
    return queue.n + queue[0]


def attribute_of_an_exception(x):
    error = ValueError("a")
    error.n = 1.0
    if x > 0:
        error.n = x
    return error.n


def attribute_of_a_thread(x):
    own = threading.local()
    own.n = 1.0
    if x > 0:
        own.n = x
    return own.n


def weak_reference(x):
    if x > 0:
        REFERENCE().items[0] = x
    else:
        REFERENCE().items[0] = 3.0
    return REFERENCE().items[0]


def variable_of_a_context(x):
    VARIABLE.set(1.0)
    if x > 0:
        VARIABLE.set(x)
    return VARIABLE.get()


def items_of_a_tuple_with_attributes(x):
    if x > 0:
        PAIR.items[0] = x
    else:
        PAIR.items[0] = 5.0
    return PAIR.items[0]


def list_in_an_array_of_objects(x):
    objects = np.empty(2, object)
    objects[0] = [1.0, 2.0]
    if x > 0:
        objects[0][1] = x
    return objects[0][0] + objects[0][1]


def methods_and_their_defaults(x):
    if x > 0:
        CLOSED.put(x)
    else:
        CLOSED.put(-x)
    return CLOSED.total()


def setter_of_a_property(x):
    for _ in range(20):
        CLOSED.last = CLOSED.last * 0.5 + x
    return CLOSED.last


def static_and_class_methods(x):
    if x > 0:
        CLOSED.put_first(x)
    elif x > -1:
        CLOSED.put_twice(x)
    return CLOSED[0]


def special_methods(x):
    if x > 0:
        CLOSED(x)
    else:
        CLOSED[0] = 3 * x
    return CLOSED[0]


def operator(x):
    if x > 0:
        CLOSED + x
    return CLOSED[0] * x


def context_manager(x):
    if x > 0:
        with CLOSED:
            pass
    return CLOSED[0] * x


def bound_methods_of_a_list(x):
    if x > 0:
        append(x)
    else:
        append(-x)
    return item(length() - 1) + length()


def decorator(x):
    found = identity(x) if x > 0 else 1.0
    return found + identity(x)


def module_of_a_package(x):
    if x > 0:
        PACKAGE.inner.number = x
    else:
        PACKAGE.inner.items[0] = 3.0
    return PACKAGE.inner.number + PACKAGE.inner.items[0]


def module_under_a_name_in_a_loop(x):
    module = PACKAGE.inner
    for _ in range(20):
        module.number = module.number * 0.5 + x
    return PACKAGE.inner.number


def module_that_an_object_holds(x):
    if x > 0:
        KEPT.module.number = x
    return PACKAGE.inner.number


PROGRAMS = [
    module_of_a_package,
    module_under_a_name_in_a_loop,
    module_that_an_object_holds,
    attribute_of_a_dict,
    attribute_of_a_list_in_a_loop,
    attribute_of_a_deque,
    attribute_of_an_exception,
    attribute_of_a_thread,
    weak_reference,
    variable_of_a_context,
    items_of_a_tuple_with_attributes,
    list_in_an_array_of_objects,
    methods_and_their_defaults,
    setter_of_a_property,
    static_and_class_methods,
    special_methods,
    operator,
    context_manager,
    bound_methods_of_a_list,
    decorator,
]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("level", [0, 2])
def test_state_is_found(f, level, fresh):
    for x in (2.0, -2.0, 0.5, -0.5):
        expected = contextvars.copy_context().run(f, x)
        fresh()
        assert sg.compile(f, optimize=level, check_first=False)(x) == pytest.approx(expected, rel=1e-14)
        fresh()


def text_in_memory(x):
    text = io.StringIO()
    if x > 0:
        text.write("abc")
    return x * len(text.getvalue())


def test_text_that_one_side_writes_is_refused():
    with pytest.raises(sg.errors.UnsupportedError, match="text, a StringIO, has different items"):
        sg.compile(text_in_memory, check_first=False)(2.0)


def imports_on_one_side(x):
    if x > 0:
        import tests.frontend.conversion.imported

        return tests.frontend.conversion.imported.NUMBER * x
    return x


def test_a_module_that_is_imported_meanwhile_stays_so():
    import tests.frontend.conversion

    compiled = sg.compile(imports_on_one_side, check_first=False)
    assert [compiled(x) for x in (2.0, -2.0)] == [6.0, -2.0]
    assert tests.frontend.conversion.imported is sys.modules["tests.frontend.conversion.imported"]
