"""Takes the pictures of docs/howto/views.md that only a browser draws: `python -m docs.pictures.screenshots`.

Needs Chromium, its driver, and selenium.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import sympy
from selenium import webdriver
from selenium.webdriver.common.by import By

import symgrad as sg
from tests.documents import blocks, printed

HERE = Path(__file__).parent
PAGE = HERE.parent / "howto" / "views.md"
NOTEBOOK = """<!doctype html>
<style>
  body {{ margin: 0; font: 14px sans-serif; background: #ffffff; }}
  main {{ width: {width}px; padding: 4px 16px; }}
  .code {{ margin: 14px 0 6px; padding: 7px 10px; background: #f5f6f8; border-left: 3px solid #4c8bc9; }}
</style>
<main>{cells}</main>"""


def main():
    compiled, page = program()
    slope = sg.grad(lambda x, s: np.exp(-((x / s) ** 2) / 2)).trace("float64[]", "float64[]")
    x = sg.Graph().input("x", "float64[]")
    cells = [
        cell("sg.value_and_grad(loss).compile(*specs, optimize=1)", compiled._repr_html_()),
        cell(
            "sg.grad(np.tanh).compile(0.5, optimize=1).graph",
            sg.grad(np.tanh).compile(0.5, optimize=1).graph._repr_html_(),
        ),
        cell("np.sin(x) ** 2 / (1 + x)", formula(sg.to_sympy(np.sin(x) ** 2 / (1 + x)))),
    ]
    bell = f'<div style="font-size: 24px">{formula(sg.to_sympy(slope))}</div>'
    browser = started()
    try:
        open_page(browser, page, 1280, 760)
        browser.execute_script("goToNode(nodes.findIndex((node) => node.name === 'd_w')); fit()")
        browser.execute_async_script("setTimeout(arguments[0], 300)")
        browser.save_screenshot(str(HERE / "page.png"))
        for name, shown, width in (("formula", bell, 240), ("notebook", "".join(cells), 760)):
            open_page(browser, NOTEBOOK.format(cells=shown, width=width), width + 100, 1300)
            browser.find_element(By.TAG_NAME, "main").screenshot(str(HERE / f"{name}.png"))
    finally:
        browser.quit()


def program():
    """That of the page, and how it is drawn."""
    names = {}
    with tempfile.TemporaryDirectory() as folder:
        first = blocks(PAGE.read_text(encoding="utf-8"))[0]
        printed(Path(folder), first.name, first.code, names)
        return names["program"], sg.draw(names["program"]).text(".html")


def cell(code, shown):
    return f'<pre class="code">{code}</pre>{shown}'


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
