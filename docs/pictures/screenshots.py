"""Takes the pictures of docs/howto/views.md that only a browser draws: `python -m docs.pictures.screenshots`.

Needs Chromium, its driver, selenium; and nbconvert with ipykernel, which run the notebook and write it as a page.
"""

import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import sympy
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat.v4 import new_code_cell, new_notebook
from selenium import webdriver
from selenium.webdriver.common.by import By

import symgrad as sg
from tests.documents import blocks, printed

HERE = Path(__file__).parent
PAGE = HERE.parent / "howto" / "views.md"
FORMULA = '<!doctype html><main style="width: 240px; padding: 4px 16px; font-size: 24px">{formula}</main>'
CELLS = (
    "sg.value_and_grad(loss).compile(*specs)",
    "rng = np.random.default_rng(0)\n"
    "args = rng.normal(size=3), rng.normal(size=(10, 3)), np.sign(rng.normal(size=10))\n"
    "sg.compare_grads(loss, args, order=1)",
    'sg.grad(np.tanh).compile("float64[]", optimize=1).graph',
)
"""Of the notebook, behind the model of the page."""


def main():
    page, notebook = program(), executed([model(), *CELLS])
    slope = sg.grad(lambda x, s: np.exp(-((x / s) ** 2) / 2)).trace("float64[]", "float64[]")
    bell = FORMULA.format(formula=formula(sg.to_sympy(slope)))
    browser = started()
    try:
        open_page(browser, page, 1280, 760)
        browser.execute_script("goToNode(nodes.findIndex((node) => node.name === 'd_w')); fit()")
        browser.execute_async_script("setTimeout(arguments[0], 300)")
        browser.save_screenshot(str(HERE / "page.png"))
        for name, html, width in (("formula", bell, 340), ("notebook", notebook, 900)):
            open_page(browser, html, width, 2200)
            browser.find_element(By.TAG_NAME, "main").screenshot(str(HERE / f"{name}.png"))
    finally:
        browser.quit()


def program():
    """The page of the program of views.md."""
    names = {}
    with tempfile.TemporaryDirectory() as folder:
        first = blocks(PAGE.read_text(encoding="utf-8"))[0]
        printed(Path(folder), first.name, first.code, names)
        return sg.draw(names["program"]).text(".html")


def model():
    """The first cell: what views.md begins with, up to the shapes."""
    code = blocks(PAGE.read_text(encoding="utf-8"))[0].code
    return "\n".join(line for line in code.split("\n") if not line.startswith(("#", "program", "traced"))).strip()


def executed(cells):
    """A notebook of these cells, run, as nbconvert writes it; without what it would load from the network."""
    notebook = new_notebook(cells=[new_code_cell(code) for code in cells])
    ExecutePreprocessor(timeout=120).preprocess(notebook)
    return re.sub(r'<script[^>]* src="http.*?</script>', "", HTMLExporter().from_notebook_node(notebook)[0])


def formula(expression):
    """What LaTeX looks like, or nearly so."""
    drawn = sympy.mathml(expression, printer="presentation").replace("&ExponentialE;", "e")
    return f'<math display="block">{drawn}</math>'


def started():
    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def open_page(browser, html, width, height):
    browser.set_window_size(width, height + 150)  # the window has a frame
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        browser.get(path.as_uri())


if __name__ == "__main__":
    main()
