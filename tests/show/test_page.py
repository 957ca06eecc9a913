"""The page of a graph, in a browser: it opens, is clicked and searched, and shows what it should."""

from __future__ import annotations

import json
import linecache
import re
import shutil

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.listing import node_names
from symgrad.report.profile import Profile
from symgrad.show.markup import script_data
from symgrad.show.page import page_data

pytestmark = pytest.mark.of_numpy

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1400,900"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


LOSS = sg.value_and_grad(loss, target="numpy")
SPECS = "float64[d]", "float64[n, d]", "float64[n]"
READABLE = LOSS.compile(*SPECS, optimize=1)


def rolled(w, xs):
    h = w
    for x in xs:
        if np.sum(h) > 1.0:
            h = h * 0.5
        else:
            h = np.tanh(w * h + x)
    return np.sum(h)


ROLLED = sg.grad(rolled, target="numpy").compile("float64[d]", "float64[n, d]", optimize=1)


def data(x, **options):
    return page_data(sg.draw(x, **options).picture)


def timed(compiled, seconds):
    """A profile in which the values with these names take these times."""
    names, total = node_names(compiled.graph), sum(seconds.values())
    shares = {node: seconds.get(names[node], 0.0) / total for node in compiled.emitted.origins.values()}
    return Profile(compiled.header.function, total, 0.0, [], shares)


# ---- what the page knows


def test_a_node_says_where_it_comes_from():
    nodes = {node["name"]: node for node in data(READABLE)["nodes"]}
    margin, slope = nodes["margin"], nodes["d_w"]
    assert (margin["operator"], margin["type"], margin["kind"]) == ("np.multiply", "float64[n]", "forward")
    assert (margin["place"], margin["line"]) == (
        f"test_page.py:{loss.__code__.co_firstlineno + 1}",
        "margin = y * (X @ w)",
    )
    assert margin["code"] == "margin = y * (X @ w)  # float64[n]"
    assert margin["cost"] == "n operations, 24 * n bytes"
    assert margin["of"] is None
    assert (slope["kind"], slope["result"]) == ("derivative", True)
    assert re.fullmatch(r"derivative of np\.\w+ at test_page\.py:\d+", slope["of"]["text"])


def test_what_a_line_nests_stands_in_that_line():
    nodes = data(READABLE)["nodes"]
    product = next(node for node in nodes if node["operator"] == "np.matmul" and node["kind"] == "forward")
    assert product["code"] == "margin = y * (X @ w)  # float64[n]"


def test_groups_are_functions_and_lines_and_bodies_of_loops():
    found = data(LOSS.compile(*SPECS))
    groups = found["groups"]
    body = next(group for group in groups if group["kind"] == "region")
    assert groups[body["parent"]]["kind"] == "function"
    assert groups[body["parent"]]["shade"] == body["shade"] == "forward"  # not that of the inputs of the loop
    lines = [group for group in groups if group["parent"] == groups.index(body)]
    assert {group["kind"] for group in lines} == {"line"}
    assert {group["shade"] for group in lines} == {"forward", "derivative"}


def test_bodies_are_named_by_the_line_of_their_loop_or_branch():
    groups = data(ROLLED)["groups"]
    first = rolled.__code__.co_firstlineno
    bodies = [group for group in groups if group["kind"] == "region"]
    assert {group["line"] for group in bodies} == {"for x in xs:", "if np.sum(h) > 1.0:"}
    assert {group["place"].split(",")[0] for group in bodies} == {f"test_page.py:{first + k}" for k in (2, 3)}
    branches = [group for group in bodies if group["line"].startswith("if")]
    assert {groups[group["parent"]]["line"] for group in branches} == {"for x in xs:"}


def test_the_body_of_a_loop_outside_of_functions_is_no_function():
    found = data(sg.trace(lambda xs: sg.scan(lambda h, x: (h * x, None), 1.0, xs)[0], "float64[n]"))
    assert [group["kind"] for group in found["groups"] if group["name"].startswith("body")] == ["region"]


def test_the_users_source_has_whole_functions_and_nodes_know_their_lines():
    found = data(ROLLED)
    first = rolled.__code__.co_firstlineno
    source = found["source"]
    assert [(line["file"], line["number"]) for line in source] == [("test_page.py", first + k) for k in range(8)]
    assert source[3]["text"] == "        if np.sum(h) > 1.0:"
    for node in found["nodes"]:
        assert source[node["at"]]["text"].strip() == node["line"]


def test_source_outside_of_functions_is_its_statement_and_that_of_no_file_is_left_out():
    square = sg.compile(lambda x: x * x)
    texts = [line["text"].strip() for line in data(square.trace(1.0))["source"]]
    assert any("lambda x: x * x" in text for text in texts)
    namespace = {}
    exec(compile("def f(x):\n    return x + x", "<nowhere>", "exec"), namespace)
    found = data(sg.trace(namespace["f"], 1.0))
    assert found["source"] == [] and {node["at"] for node in found["nodes"]} == {None}


def test_a_profile_gives_shares_to_what_a_generated_line_computes():
    found = data(READABLE, profile=timed(READABLE, {"margin": 3.0, "d_w": 1.0}))
    shares = {node["name"]: node["share"] for node in found["nodes"]}
    inner = next(node["name"] for node in found["nodes"] if node["operator"] == "np.matmul")
    assert found["timed"] and (shares["margin"], shares[inner], shares["d_w"]) == (0.75, 0.75, 0.25)
    assert shares["w"] is None and not data(READABLE)["timed"]
    assert [node["name"] for node in found["nodes"] if node["makes"]] == ["margin", "value", "d_w"]


def test_data_cannot_end_its_element():
    evil = "</script><script>alert(1)</script><!-- \u2028 &"
    text = script_data({"x": evil})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["x"] == evil


def test_the_page_is_one_file_without_a_network():
    text = sg.draw(READABLE).text(".html")
    assert "{{" not in text
    assert re.findall(r"(?:src|href)=\"(?!data:)", text) == []
    assert "http" not in text.replace('http-equiv="Content', "")
    assert text == sg.draw(READABLE).text(".html")


# ---- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("there is no Chromium with its driver here")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Opened:
    """A page in the browser."""

    def __init__(self, browser, path, x, **options):
        sg.draw(x, path, **options)
        self.browser, self.nodes = browser, data(x, **options)["nodes"]
        browser.get(path.as_uri())
        self.settled()

    def settled(self):
        """Wait for what is to be drawn."""
        self.browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 30))"
        )

    def __getitem__(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    @property
    def units(self):
        return int(self["#picture"].get_attribute("data-units"))

    @property
    def drawn(self):
        self.settled()
        return int(self["#picture"].get_attribute("data-drawn"))

    @property
    def panel(self):
        return self["#panel"].text

    @property
    def lit(self):
        """The names of the boxes that stand out; None where all do."""
        self.settled()
        script = "const lit = litUnits(); return lit && [...lit].map((unit) => unit.name)"
        found = self.browser.execute_script(script)
        return None if found is None else set(found)

    @property
    def marked(self):
        """The lines of the user's source that are marked."""
        return [line.text.split(maxsplit=1)[1] for line in self.all("#source .lit")]

    def line(self, text):
        return next(line for line in self.all("#source button") if text in line.text)

    def rest_on(self, element):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).move_to_element(element).perform()

    def number(self, name):
        return next(i for i, node in enumerate(self.nodes) if node["name"] == name)

    def point(self, name, double=False):
        """Click on the box of a node."""
        self.click_at(*self.browser.execute_script(f"return placeOf({self.number(name)})"), double)

    def click_at(self, x, y, double=False):
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        action = ActionBuilder(self.browser)
        action.pointer_action.move_to_location(int(x), int(y))
        action.perform()
        clicks = ActionChains(self.browser)
        (clicks.double_click if double else clicks.click)().perform()
        self.settled()

    def keys(self, selector, *keys):
        self[selector].send_keys(*keys)
        self.settled()


@pytest.fixture
def opened(browser, tmp_path):
    yield lambda x, **options: Opened(browser, tmp_path / "graph.html", x, **options)
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.slow
def test_a_click_shows_what_a_node_is(opened):
    page = opened(READABLE)
    assert page.units == page.drawn == len(page.nodes)
    assert "Value and gradient of loss" in page.panel
    page.point("margin")
    for text in ("np.multiply", "float64[n]", "margin = y * (X @ w)", "test_page.py:", "n operations, 24 * n bytes"):
        assert text in page.panel
    page.point("d_w")
    assert "derivative of np." in page.panel
    assert "d_w = -1 / n" in page.panel


@pytest.mark.slow
def test_links_go_to_inputs_and_users(opened):
    page = opened(READABLE)
    page.point("margin")
    page[f'#panel [data-node="{page.number("y")}"]'].click()
    assert page["#panel h2"].text == "y"
    assert "given" in page.panel
    page[f'#panel [data-node="{page.number("margin")}"]'].click()
    assert page["#panel h2"].text == "margin"


@pytest.mark.slow
def test_search_finds_names_operators_and_lines(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened(READABLE)
    page["#picture"].send_keys("/")
    page.browser.switch_to.active_element.send_keys("margin")
    page.settled()
    count = sum("margin" in f"{n['name']} {n['formula']} {n['line']}" for n in page.nodes)
    assert page["#count"].text == f"{count} of {len(page.nodes)}"
    assert len(page.all("#results li")) == count
    first = page.all("#results li")[0].text
    page.keys("#search", Keys.ENTER)
    assert page["#panel h2"].text == first.split(" = ")[0]
    page.keys("#search", Keys.ENTER)
    assert page["#search"].get_attribute("aria-activedescendant") == "result1"
    page.keys("#search", Keys.ESCAPE)
    assert page.all("#results li") == []
    page.keys("#search", "no such thing")
    assert page["#count"].text == f"0 of {len(page.nodes)}"


@pytest.mark.slow
def test_kinds_are_filtered(opened):
    page = opened(READABLE)
    page['#legend input[name="derivative"]'].click()
    assert page.drawn == sum(node["kind"] != "derivative" for node in page.nodes)
    page['#legend input[name="derivative"]'].click()
    assert page.drawn == len(page.nodes)


@pytest.mark.slow
def test_lines_and_functions_are_put_together_and_opened(opened):
    page = opened(READABLE)
    lines = {(node["group"]) for node in page.nodes if node["group"] is not None}
    page["#collapse"].click()
    assert page.drawn == len(lines) + 3  # what is given is in no line
    page.point("margin", double=True)
    inside = sum(node["group"] == page.nodes[page.number("margin")]["group"] for node in page.nodes)
    assert page.drawn == len(lines) + 3 + inside - 1
    page["#open"].click()
    assert page.drawn == len(page.nodes)
    function = page["#outline > li > button"]
    assert (function.text.split("\n")[0], function.get_attribute("aria-expanded")) == ("▾", "true")
    function.click()
    assert page.drawn < len(page.nodes)
    assert page["#outline > li > button"].get_attribute("aria-expanded") == "false"
    assert "operations" in page.panel


@pytest.mark.slow
def test_the_picture_is_used_with_keys(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened(READABLE)
    page.point("margin")
    page.keys("#picture", Keys.ARROW_DOWN)
    user = page["#panel h2"].text
    assert "margin" in next(node["formula"] for node in page.nodes if node["name"] == user)
    page.keys("#picture", Keys.ARROW_UP)
    assert page["#panel h2"].text == "margin"
    page.keys("#picture", Keys.BACKSPACE)
    assert page.units < len(page.nodes)
    page.keys("#picture", Keys.ENTER)
    assert page.units == len(page.nodes)
    page.keys("#picture", *"+" * 12)
    assert page.drawn < len(page.nodes)
    page.keys("#picture", "0")
    assert page.drawn == len(page.nodes)
    page.keys("#picture", Keys.ESCAPE)
    assert "Value and gradient of loss" in page.panel


def test_the_wheel_zooms_and_dragging_moves(opened):
    from selenium.webdriver import ActionChains

    page = opened(READABLE)
    canvas = page["#picture"]
    ActionChains(page.browser).scroll_from_origin(_origin(canvas), 0, -2000).perform()
    assert page.drawn < len(page.nodes)
    before = page.browser.execute_script("return placeOf(0)")
    ActionChains(page.browser).drag_and_drop_by_offset(canvas, 50, 30).perform()
    after = page.browser.execute_script("return placeOf(0)")
    assert [round(b - a) for a, b in zip(before, after, strict=True)] == [50, 30]


def _origin(element):
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(element)


def test_it_is_light_or_dark(opened):
    page = opened(READABLE)
    assert page["html"].get_attribute("data-theme") == "light"
    page["#theme"].click()
    assert page["html"].get_attribute("data-theme") == "dark"
    assert page.browser.execute_script("return colours.page") == "#14181f"


@pytest.mark.slow
def test_a_line_of_the_source_shows_its_nodes_and_a_click_keeps_them(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened(READABLE)
    number = loss.__code__.co_firstlineno + 1
    of_margin = {node["name"] for node in page.nodes if node["place"] == f"test_page.py:{number}"}
    assert page.lit is None
    page.rest_on(page.line("margin ="))
    assert page.lit == of_margin and {"margin", "d_w"} <= of_margin
    page.rest_on(page["h1"])
    assert page.lit is None
    page.line("margin =").click()
    page.rest_on(page["h1"])
    assert page.lit == of_margin
    assert page["#panel h2"].text == f"test_page.py:{number}"
    assert page.line("margin =").get_attribute("aria-pressed") == "true"
    page.keys("#picture", Keys.ESCAPE)
    assert page.lit is None
    assert "Value and gradient of loss" in page.panel


@pytest.mark.slow
def test_a_node_shows_its_line_of_the_source(opened):
    page = opened(READABLE)
    page.point("value")
    assert page.marked == ["return np.mean(np.log(1 + np.exp(-margin)))"]
    page.rest_on(page["h1"])  # what is selected keeps its line
    assert page.marked == ["return np.mean(np.log(1 + np.exp(-margin)))"]
    page.point("d_w")
    assert page.marked == ["margin = y * (X @ w)"]


INSIDE = """
return shown.frames.every(({group, left, top, width, height}) => shown.units.every((unit) =>
  members[group].includes(unit.nodes[0]) === (Math.abs(unit.x - left - width / 2) <= (width - unit.width) / 2
    && Math.abs(unit.y - top - height / 2) <= (height - HEIGHT) / 2)))
"""


def test_bodies_of_loops_and_branches_are_framed(opened):
    page = opened(ROLLED)
    bodies = sum(group["kind"] == "region" for group in data(ROLLED)["groups"])
    canvas = page["#picture"]
    assert int(canvas.get_attribute("data-frames")) == bodies >= 3
    assert page.browser.execute_script(INSIDE)
    page["#collapse"].click()
    page.settled()
    assert canvas.get_attribute("data-frames") == "0"
    page["#open"].click()
    page.settled()
    assert int(canvas.get_attribute("data-frames")) == bodies
    page['#legend input[name="derivative"]'].click()
    page.settled()
    assert page.browser.execute_script(INSIDE)


def test_a_click_on_the_title_of_a_frame_says_what_it_holds(opened):
    page = opened(ROLLED)
    x, y = page.browser.execute_script(
        "fit(); const {left, top} = canvas.getBoundingClientRect(), frame = shown.frames[0];"
        "return [left + state.x + (frame.left + 20) * state.scale, top + state.y + (frame.top + 10) * state.scale]"
    )
    page.click_at(x, y)
    assert page["#panel h2"].text.startswith("body of %")
    assert "for x in xs:" in page.panel
    before = page.browser.execute_script("return state.scale")
    page["#panel button"].click()
    assert page.browser.execute_script("return state.scale") == before  # the view stays where it was
    assert int(page["#picture"].get_attribute("data-frames")) < len(data(ROLLED)["groups"])
    assert page["#panel button"].text == "Open"


@pytest.mark.slow
def test_colours_by_a_profile(opened):
    page = opened(READABLE, profile=timed(READABLE, {"margin": 3.0, "d_w": 1.0}))
    assert page["#time"].get_attribute("aria-pressed") == "true"
    first = loss.__code__.co_firstlineno
    shares = [part.text for part in page.all("#source .share, #source .number")]
    assert shares == ["", str(first), "100.0 %", str(first + 1), "0.0 %", str(first + 2)]
    hottest = page.all("#source .share")[1].value_of_css_property("background-color")
    assert hottest != page.all("#source .share")[2].value_of_css_property("background-color")
    page.point("margin")
    assert "75.0 %" in page.panel
    hot, cool = page.browser.execute_script(
        "return ['margin', 'value'].map((name) => heat(shown.units.find((u) => u.name === name).share))"
    )
    assert hot[-2:] == "ff" and cool[-2:] == "00"
    page["#time"].click()
    assert page.browser.execute_script("return state.timed") is False
    assert not opened(READABLE)["#time"].is_displayed()


def test_texts_of_the_user_are_text(opened):
    evil = "</script><img src=x onerror=document.title='hit'>"
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    y = np.exp(x)
    g.names[y.node] = evil
    page = opened(y)
    page.point(evil)
    assert page["#panel h2"].text == evil
    assert page.all("#panel img") == []
    assert page.browser.title != "hit"


def test_source_of_the_user_is_text(opened):
    text = "def f(x):\n    note = '</script><img src=x onerror=document.title=1>'\n    return x * len(note)\n"
    linecache.cache["<b>evil<b>"] = (len(text), None, text.splitlines(keepends=True), "<b>evil<b>")
    namespace = {}
    exec(compile(text, "<b>evil<b>", "exec"), namespace)
    page = opened(sg.trace(namespace["f"], 1.0))
    assert page["#source h3"].text == "<b>evil<b>"
    assert "</script><img" in page["#source"].text
    assert page.all("#source img, #source b") == []
    assert page.browser.title != "1"


@pytest.mark.slow
def test_5000_nodes(opened):
    from selenium.webdriver.common.keys import Keys

    def chain(x):
        h = x
        for _ in range(400):
            step = 0.1 * np.sin(h)
            h = np.tanh(h * 1.01 + step)
        return np.sum(h)

    page = opened(sg.grad(chain, loops="unroll").trace("float64[n]"))
    assert len(page.nodes) > 5000
    assert page.units < 20  # line by line
    page["#open"].click()
    assert page.units == len(page.nodes)
    assert page.drawn == len(page.nodes)
    page.keys("#search", "cos", Keys.ENTER)
    assert 0 < page.drawn < 100  # what is outside of the window is not drawn
    assert "np.cos" in page.panel
    assert len(page.all("#results li")) == 200
    page["#collapse"].click()
    assert page.units < 20
