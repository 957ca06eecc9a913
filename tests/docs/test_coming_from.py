"""The examples and pages for people who come from other systems say what is true, of those systems, too."""

import ast
import re
from contextlib import nullcontext

import numpy as np
import pytest

import symgrad as sg
from tests.docs.test_examples import assert_trees_close, in_another_process, load
from tests.documents import BLOCK
from tests.folders import ROOT


@pytest.fixture(scope="module")
def torch_points():
    return load("from_pytorch")


def code(source):
    """A generated module without its comments."""
    return re.sub(r" *#.*", "", source)


def assigned(source):
    return re.findall(r"^ +(\w+) = ", source, re.MULTILINE)


def test_what_depends_on_what(torch_points):
    found = torch_points.requires_grad()
    assert found["base"] == ["h", "scores", "logs", "margin"]
    assert found["kind"] == ["scores", "logs"]
    assert found["sign"] == ["margin"]


def test_nothing_of_a_frozen_base_is_differentiated(torch_points):
    frozen = assigned(torch_points.frozen_base())
    whole = assigned(sg.grad(torch_points.kind_loss).source(*torch_points.specs(), optimize=1))
    assert {"d_base", "d_h"} <= set(whole)
    assert not {"d_base", "d_h"} & set(frozen)
    assert {"h", "d_kind"} <= set(frozen)


@pytest.mark.parametrize("point", ["detached", "hooked", "accumulated"])
def test_gradients_are_what_is_expected(torch_points, point):
    found, expected = getattr(torch_points, point)()
    assert_trees_close(found, expected)


def test_gradients_of_values_inside(torch_points):
    params, x, *_ = torch_points.data()
    base, d_h = torch_points.inner_gradients()
    np.testing.assert_allclose(base, x.T @ (d_h * (1 - np.tanh(x @ params["base"]) ** 2)))
    np.testing.assert_allclose(torch_points.looked_at(), d_h)


def test_backward_of_a_vector_gives_rows_of_the_jacobian(torch_points):
    _, rows, jacobian = torch_points.backward_of_a_vector()
    np.testing.assert_allclose(rows, [jacobian[0, 0], jacobian[1, 2]], atol=1e-15)


def test_two_losses_share_the_forward_pass_and_release_what_is_large(torch_points):
    source = torch_points.two_losses()
    for shared in ("np.tanh(", "x @ base", "1 - h * h"):
        assert code(source).count(shared) == 1
    assert {"d_base", "d_base_2"} <= set(assigned(source))
    large = {name for name in re.findall(r"^ +(\w+) = .*# float64\[100000, [36]\]$", source, re.MULTILINE)}
    released = {name for names in re.findall(r"^ +del (.*)$", source, re.MULTILINE) for name in names.split(", ")}
    assert {"h", "scores", "d_h", "d_h_2"} <= large
    assert large <= released
    arguments = torch_points.data()
    both = sg.compile(torch_points.both_gradients)(*arguments)
    each = [sg.grad(loss)(*arguments) for loss in (torch_points.kind_loss, torch_points.sign_loss)]
    assert_trees_close(list(both), each)


def test_higher_orders(torch_points):
    y = np.tanh(0.5)
    np.testing.assert_allclose(torch_points.higher_orders(), (1 - y**2) * (6 * y**2 - 2))  # also checks the penalty


def test_what_is_written_over_is_differentiated_rightly(torch_points):
    found, x, eps = torch_points.in_place(), np.linspace(-1, 1, 5), 1e-6
    plain = torch_points.smoothed
    numeric = [(plain(x + eps * row) - plain(x - eps * row)) / (2 * eps) for row in np.eye(5)]
    np.testing.assert_allclose(found, numeric, rtol=1e-7, atol=1e-9)


def test_inference_has_no_derivatives(torch_points):
    assert assigned(torch_points.inference()) == ["base", "kind", "h"]


def test_what_is_deployed_has_no_training_in_it_and_stands_alone(torch_points, tmp_path):
    training, prediction, path = torch_points.deployed(tmp_path)
    params, x, kinds, _ = torch_points.data()
    assert len(training.graph.nodes) > 2 * len(prediction.graph.nodes)
    assert "d_" not in code(prediction.source)
    assert "kinds" not in code(prediction.source)
    loss, *gradients = training(x, kinds, params["base"], params["kind"])
    expected = sg.value_and_grad(torch_points.kind_loss)(params, x, kinds, np.ones(len(x)))
    assert_trees_close([loss, gradients], [expected[0], [expected[1]["base"], expected[1]["kind"]]])
    labels = in_another_process(tmp_path, path, "function", (x, params["base"], params["kind"]))
    np.testing.assert_array_equal(labels, np.argmax(np.tanh(x @ params["base"]) @ params["kind"], axis=1))


def test_the_tour_prints_each_point(torch_points, capsys):
    torch_points.main()
    out = capsys.readouterr().out
    for title in (*torch_points.POINTS, "Deployment"):
        assert f"---- {title}\n" in out
    assert "rows of the Jacobian: True, True" in out


# ---- what the pages say of the other systems, where those are installed

PEERS = {"autograd": "autograd", "jax": "jax", "pytorch": "torch", "tensorflow1": "tensorflow"}


def check_claims(text, namespace):
    """Run a block: behind an expression a comment begins with its value, ``raises`` stands behind what raises."""
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        program = compile(ast.Module([statement], []), "page", "exec")
        claim = lines[statement.end_lineno - 1].partition("  # ")[2]
        if claim.startswith("raises "):
            kind, words = re.fullmatch(r"raises (\w+)(?:: \"(.*)\")?", claim).groups()
            with pytest.raises(Exception, match=words and re.escape(words)) as error:
                exec(program, namespace)
            assert type(error.value).__name__ == kind
        elif isinstance(statement, ast.Expr):
            value = repr(eval(compile(ast.Expression(statement.value), "page", "eval"), namespace))
            assert not claim or claim.startswith(value), f"{ast.unparse(statement)} is {value}, not {claim}"
        else:
            exec(program, namespace)


@pytest.mark.parametrize("page", PEERS)
@pytest.mark.filterwarnings("ignore")  # of the other systems
def test_what_is_said_of_other_systems_is_true(page):
    peer = pytest.importorskip(PEERS[page])
    text = (ROOT / "docs" / "coming_from" / f"{page}.md").read_text(encoding="utf-8")
    namespace = {}
    blocks = [block["text"] for block in BLOCK.finditer(text) if block["language"] == "py"]
    assert blocks
    with peer.enable_x64(False) if page == "jax" else nullcontext():  # other tests of this process may have set it
        for block in blocks:
            check_claims(block, namespace)


@pytest.mark.parametrize(
    "text", ["1 + 1  # 3", "int('x')  # raises TypeError", '1 / 0  # raises ZeroDivisionError: "by two"']
)
def test_a_wrong_claim_is_found(text):
    with pytest.raises(AssertionError):
        check_claims(text, {})
