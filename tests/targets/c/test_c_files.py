"""Plain C: a file and its header, compiled without Python and called through pointers."""

import ctypes
import pickle
import re
import subprocess

import numpy as np
import pytest

import symgrad as sg
from symgrad.cli import main
from symgrad.targets.c import toolchain
from tests.targets.c.test_native import OF_SYSTEMS, PROGRAMS, SYSTEMS

COMPILER = toolchain.compiler()
needs_a_compiler = pytest.mark.skipif(COMPILER is None or COMPILER.is_zig, reason="there is no C compiler")
C_TYPES = {"float64": ctypes.c_double, "float32": ctypes.c_float, "int64": ctypes.c_int64, "bool": ctypes.c_bool}


def shared(path, *more):
    """Compile a C file with all warnings, and load it."""
    made = path.with_suffix(".so")
    flags = ["-O1", "-std=c11", "-ffp-contract=off", "-fwrapv", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    unused = ["-Wno-unused-variable", "-Wno-unused-parameter", "-Wno-type-limits"]
    subprocess.run(
        [*COMPILER.command, *flags, *more, *unused, "-shared", "-fPIC", str(path), "-o", str(made), "-lm"], check=True
    )
    return ctypes.CDLL(str(made))


def call(library, name, sizes, args, results, dtype=np.float64):
    """Call a function, and return its code and its results, which are arrays of these shapes."""
    made = [np.full(shape, np.nan, dtype) for shape in results]
    sizes = [ctypes.c_int64(n) for n in sizes]
    workspace = getattr(library, f"{name}_workspace")
    workspace.restype = ctypes.c_int64
    memory = ctypes.create_string_buffer(workspace(*sizes))
    given = [C_TYPES[str(x.dtype)](x.item()) if x.ndim == 0 else ctypes.c_void_p(x.ctypes.data) for x in args]
    code = getattr(library, name)(*sizes, *given, *(ctypes.c_void_p(x.ctypes.data) for x in made), memory)
    return code, made


@needs_a_compiler
@pytest.mark.parametrize("name", PROGRAMS | OF_SYSTEMS)
def test_c_computes_what_numpy_does(name, tmp_path):
    f, args, wrt = (PROGRAMS | OF_SYSTEMS)[name]
    compiled = sg.value_and_grad(f, wrt).compile(*args)
    path = compiled.save(tmp_path / "model.c")
    value, slopes = compiled(*args)
    expected = [value, *slopes]
    function = re.search(r"^int (\w+)\($|^int (\w+)\(\w", path.read_text(), re.MULTILINE)
    found = call(shared(path), function[1] or function[2], [], map(np.asarray, args), map(np.shape, expected))
    assert found[0] == 0
    for x, y in zip(found[1], expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)


def pooled(params, rows):
    return np.sum(np.tanh(params["scale of"] * params["shifts"][rows]))


SPECS = ({"scale of": 1.0, "shifts": "float64[n]"}, "int64[m]")


@needs_a_compiler
def test_sizes_keys_and_codes(tmp_path):
    path = sg.grad(pooled).compile(*SPECS).save(tmp_path / "pooled.c")
    assert "double scale_of" in path.with_suffix(".h").read_text()
    library = shared(path)
    x, rows = np.array([0.2, -0.4, 0.6]), np.array([0, 2, 2, -1])
    code, (scale, shifts) = call(library, "pooled_grad", [4, 3], [np.array(1.5), x, rows], [(), (3,)])
    expected = sg.grad(pooled)({"scale of": 1.5, "shifts": x}, rows)
    assert code == 0
    np.testing.assert_allclose(scale, expected["scale of"], rtol=1e-14)
    np.testing.assert_allclose(shifts, expected["shifts"], rtol=1e-14)
    assert "1 where an index is outside of its axis" in " ".join(path.read_text().split())
    assert call(library, "pooled_grad", [4, 3], [np.array(1.5), x, rows + 1], [(), (3,)])[0] == 1


def pyramid(x):
    for _ in range(len(x) - 1):
        x = np.tanh(x[1:]) * x[:-1]
    return x[0]


@needs_a_compiler
def test_the_workspace_has_room_for_arrays_that_shrink(tmp_path):
    path = sg.value_and_grad(pyramid).compile("float64[n]").save(tmp_path / "pyramid.c")
    library = shared(path)
    for n in (1, 2, 9):
        x = np.linspace(0.8, 1.2, n)
        code, (value, slope) = call(library, "pyramid_value_and_grad", [n], [x], [(), (n,)])
        expected = sg.value_and_grad(pyramid, loops="unroll", target="numpy")(x)
        assert code == 0
        np.testing.assert_allclose(value, expected[0], rtol=1e-13)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-12)


SYMMETRIC = {
    "cholesky": lambda a, b: np.linalg.cholesky(a) * b[..., :1],
    "upper cholesky": lambda a, b: np.linalg.cholesky(a, upper=True) * b[..., :1],
    "factor, then solve": lambda a, b: np.linalg.solve(np.linalg.cholesky(a), b),
    "solve": lambda a, b: np.linalg.solve(a, b),
    "inv": lambda a, b: np.linalg.inv(a) * b[..., :1],
    "det": lambda a, b: np.linalg.det(a) * b[0, 0],
    "slogdet": lambda a, b: np.linalg.slogdet(a)[1] + np.linalg.slogdet(a)[0] * b[0, 0],
}


def symmetric(shape, dtype=np.float64):
    a = np.random.default_rng(1).normal(size=shape)
    return (a @ np.swapaxes(a, -1, -2) + 4 * np.eye(shape[-1])).astype(dtype)


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_systems_of_any_size(name, rows, tmp_path):
    args = symmetric((rows, rows)), np.random.default_rng(2).normal(size=(rows, 2))
    compiled = sg.grad(lambda a, b: np.sum(SYMMETRIC[name](a, b) ** 2)).compile("float64[n, n]", "float64[n, 2]")
    assert_equal(compiled, args, [rows], tmp_path)


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.parametrize("name", SYMMETRIC)
def test_stacks_of_systems(name, tmp_path):
    args = symmetric((3, 1, 4, 4)), np.random.default_rng(2).normal(size=(2, 4, 3))
    compiled = sg.grad(lambda a, b: np.sum(SYMMETRIC[name](a, b) ** 2)).compile(
        "float64[m, 1, n, n]", "float64[k, n, 3]"
    )
    assert_equal(compiled, args, [2, 3, 4], tmp_path)


@needs_a_compiler
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_in_both_precisions(name, rows, dtype, tmp_path):
    a = np.random.default_rng(3).normal(size=(rows, rows)).astype(dtype)
    assert_equal(sg.compile(SYSTEMS[name]).compile(a), (a,), [], tmp_path, 1e-9 if dtype == np.float64 else 1e-3)


BAD = {
    "zeros": np.zeros((3, 3)),
    "alike": np.ones((3, 3)),
    "rank two": np.diag([1.0, 0.0, 2.0]) + np.diag([3.0, 0.0], 1),
    "negative": np.diag([1.0, -1.0, 2.0]),
    "nan": np.full((3, 3), np.nan),
    "tiny": np.eye(3) * 1e-100,
}


@needs_a_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*SYSTEMS, "cholesky", "gradient of det"])
@pytest.mark.parametrize("kind", BAD)
def test_what_is_singular_is_told(kind, name, tmp_path):
    """Codes stand for the errors that NumPy raises."""
    more = {"cholesky": np.linalg.cholesky, "gradient of det": lambda a: np.linalg.det(a)}
    f, a = (SYSTEMS | more)[name], BAD[kind]
    compiled = (sg.grad if name == "gradient of det" else sg.compile)(f).compile(a)
    path = compiled.save(tmp_path / "bad.c")
    try:
        expected, raised = np.asarray(compiled(a)), 0
    except np.linalg.LinAlgError as error:
        raised = {"Singular matrix": 4, "Matrix is not positive definite": 5}[str(error)]
        expected = np.zeros(np.shape(f(np.eye(3))))
    code, (found,) = call(shared(path), function_of(path), [], [a], [expected.shape])
    assert code == raised
    if raised:
        assert f"{raised} where a matrix is" in " ".join(path.read_text().split())
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def function_of(path):
    """Return the name of the function that a C file is about."""
    return re.search(r"^int (\w+)\(", path.with_suffix(".h").read_text(), re.MULTILINE)[1]


def assert_equal(compiled, args, sizes, tmp_path, rtol=1e-9):
    """Compare what a program gives as C of a file with what it gives itself."""
    path = compiled.save(tmp_path / "matrices.c")
    expected = np.asarray(compiled(*args))
    code, (found,) = call(shared(path), function_of(path), sizes, args, [expected.shape], expected.dtype)
    assert code == 0
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-2 * rtol * np.abs(expected).max())


@needs_a_compiler
def test_the_header_is_of_c_plus_plus_as_well(tmp_path):
    sg.grad(pooled).compile(*SPECS).save(tmp_path / "pooled.c")
    main = '#include "pooled.h"\nint main() { return int(pooled_grad_workspace(1, 2)) & 0; }\n'
    (tmp_path / "main.cpp").write_text(main)
    subprocess.run([*COMPILER.command, "-x", "c++", "-fsyntax-only", "-Wall", str(tmp_path / "main.cpp")], check=True)


def test_files_that_were_edited_stay(tmp_path):
    compiled = sg.grad(pooled).compile(*SPECS)
    path = compiled.save(tmp_path / "pooled.c")
    text = path.read_text()
    compiled.save(path)
    assert path.read_text() == text
    path.write_text(text.replace("sg_tanh(", "tanh("))
    with pytest.raises(sg.errors.ArgumentError, match="was edited since symgrad wrote it"):
        compiled.save(path)
    compiled.save(path, overwrite=True)
    assert path.read_text() == text
    (tmp_path / "mine.c").write_text("int x;\n")
    with pytest.raises(sg.errors.ArgumentError, match="symgrad did not write it"):
        compiled.save(tmp_path / "mine.c")


def largest(x):
    return np.linalg.norm(x, 2) * 2


def looped(x):
    for _ in range(20):
        x = x + 0.1 * np.sort(x) + np.nanmedian(x)
    return x


@pytest.mark.parametrize(
    ("f", "spec", "message"),
    [
        (largest, "float64[4, 3]", r"this line takes \S*, which has no C(.|\n)*norm"),
        (looped, "float64[n]", r"nanmedian has no C(.|\n)*np.nanmedian"),
        (lambda x: x**2, "float16[n]", r"float16 has no C(.|\n)*float64, float32, complex128, (.|\n)*uint8 and bool"),
    ],
)
def test_what_the_user_wrote_is_named(f, spec, message, tmp_path):
    with pytest.raises(sg.errors.UnsupportedError, match=message):
        sg.compile(f).compile(spec).save(tmp_path / "model.c")


def decay(p, until):
    y = np.array([1.0, 0.0]) + p  # no /* comment */ of C's
    t = 0.0
    while t < until:
        y = y - 0.01 * p * y
        t = t + 0.01
    return np.sum(y)


def test_text_of_a_loop(tmp_path):
    text = str(sg.compile(decay).source("float64[]", "float64[]", target="c"))
    assert text.count("/*") == text.count("*/") and "turns_0" not in text and "c[] = {1.0, 0.0}" in text
    counted = sg.compile(lambda x: x * np.arange(5.0)[::-1]).source("float64[5]", target="c")
    assert "(double)(4 - i)" in str(counted)


def highest(x, y):
    return np.max(x) + np.sum(y)


def falling(x, drag):
    height, speed, rows = x[0], x[1], []
    while height > 0.0:
        speed = speed - 0.1 * (9.81 + drag * speed * np.abs(speed))
        height = height + 0.1 * speed
        rows.append(np.sqrt(1.0 + speed**2))
    return sum(rows)


def test_memory_that_grows_is_freed_in_one_place_and_grows_together():
    """A text with all of them at each exit was quadratic in their number: megabytes for a Hessian."""
    text = sg.hessian(falling, (0, 1)).compile("float64[2]", "float64[]", target="c").native
    tapes = re.findall(r"\*(\w+) = NULL;  /", text)
    assert len(tapes) > 3
    assert all(text.count(f"free({name});") == 1 for name in tapes)
    assert len(re.findall("= -1;  /\\* rows that", text)) < len(tapes) / 2


@needs_a_compiler
def test_sizes_that_are_too_small(tmp_path):
    path = sg.compile(highest).compile("float64[n]", "float64[m]").save(tmp_path / "top.c")
    assert "Sizes are at least 1." in path.with_suffix(".h").read_text()
    library = shared(path)
    for n, expected in ((2, 0), (0, 9)):
        code, _ = call(library, "highest", [2, n], [np.ones(n), np.ones(2)], [()])
        assert code == expected


def test_what_c_has_not_is_named_with_its_line(tmp_path):
    compiled = sg.grad(lambda a: np.sum(np.linalg.eigvalsh(a))).compile("float64[3, 3]")
    with pytest.raises(sg.errors.UnsupportedError, match=r"linalg.eigh, which has no C(.|\n)*test_c_files.py:\d+"):
        compiled.save(tmp_path / "values.c")
    assert not list(tmp_path.iterdir())


def test_files_are_written_both_or_not_at_all(tmp_path):
    (tmp_path / "pooled.c").write_text("int x;\n")
    with pytest.raises(sg.errors.ArgumentError, match="symgrad did not write it"):
        sg.grad(pooled).compile(*SPECS).save(tmp_path / "pooled.c")
    assert [path.name for path in tmp_path.iterdir()] == ["pooled.c"]


def test_products_of_any_size_are_loops_where_there_is_no_blas(tmp_path):
    compiled = sg.grad(lambda a, b: np.sum(np.tanh(a @ b))).compile("float64[100, 80]", "float64[80, 60]")
    assert "for (int64_t k = 0; k < " in compiled.save(tmp_path / "product.c").read_text()


def test_exceptions_have_no_c(tmp_path):
    def checked(x):
        if x[0] > 1:
            raise ValueError("too large")
        return np.sum(x)

    with pytest.raises(sg.errors.UnsupportedError, match=r"the function raises, warns or prints(.|\n)*checks=False"):
        sg.grad(checked).compile("float64[3]").save(tmp_path / "checked.c")
    sg.grad(checked, checks=False).compile("float64[3]").save(tmp_path / "checked.c")


def test_the_source_in_c_is_what_is_saved_and_takes_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "compiler", lambda: None)
    compiled = sg.grad(pooled, target="numpy").compile(*SPECS)
    text = compiled.save(tmp_path / "pooled_grad.c").read_text()
    assert compiled.source(target="c") == text
    for target in ("numpy", "c", "auto"):
        assert sg.grad(pooled, target=target).source(*SPECS, target="c") == text
    assert sg.grad(pooled, target="numpy").source(*SPECS).startswith('"""')


def test_other_sources_have_no_c():
    source = sg.grad(pooled).source(*SPECS)
    with pytest.raises(sg.errors.ArgumentError, match=r"source\(target='rust'\)"):
        source(target="rust")
    with pytest.raises(sg.errors.ArgumentError, match="a text without its program"):
        pickle.loads(pickle.dumps(source))(target="c")
    with pytest.raises(sg.errors.UnsupportedError, match=r"linalg\.qr has no C"):
        sg.compile(lambda a: np.linalg.qr(a)[1]).source("float64[3, 3]", target="c")


def test_the_command_prints_c_and_saves_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("import numpy as np\n\n\ndef loss(x):\n    return np.sum(np.exp(x) * x)\n")
    assert main(["grad", "model.py:loss", "--spec", "x=float64[n]", "--target", "c"]) == 0
    printed = capsys.readouterr().out
    assert "int loss_grad(int64_t n, const double *restrict x, double *restrict d_x_out" in printed
    assert "/* derivative of model.py:5 */" in printed
    assert main(["grad", "model.py:loss", "--spec", "x=float64[n]", "-o", "loss_grad.c"]) == 0
    assert (tmp_path / "loss_grad.c").read_text().strip() == printed.strip()
    assert main(["grad", "model.py:loss", "--spec", "x=float64[n]", "--target", "c", "-o", "loss.py"]) != 0


def test_a_mask_of_a_triangle_is_a_comparison():
    """Not a choice between true and false."""

    def f(x):
        below = np.tril(np.ones(x.shape, dtype=bool))
        return np.sum(np.where(below, x, 0.5))

    text = sg.compile(f).compile("float64[n, n]").source(target="c")
    assert "(i >= j) ?" in text
    assert "true" not in text.split("int f(")[-1] and "false" not in text.split("int f(")[-1]
