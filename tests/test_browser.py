"""Reports in a real browser: drawn without complaint or network, moved by keys, legible in the dark and on paper."""

import re
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from fnode.derivatives import label_of
from fnode.learn import run
from fnode.preparation import prepare, resolved
from fnode.report import differentiation, page
from fnode.scores import scores
from fnode.trajectory import Column, Columns, State, Trajectory

sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("there is no chromium to look at reports with: apt-get install chromium", allow_module_level=True)

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
EVIL = "<script>ran=1</script><img src=x onerror=ran=1>'\"&"
PAPER = 703  # pixels between the margins of A4


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, Path]:
    """The page of a small run of a mechanism, and one of derivatives of a column with a name that would like to run."""
    folder = tmp_path_factory.mktemp("pages")
    values = {"training": {"epochs": 1, "batch": 16}, "network": {"width": 4}, "data": {"steps": 60, "train": 40}}
    config = resolved({"system": "slider_crank", **values}, "paper", None)
    found = run(config, prepare(config))
    ts = jnp.arange(40) * 0.1
    motion = Trajectory(ts, State(jnp.sin(ts)[:, None], jnp.cos(ts)[:, None]), columns=Columns((Column(EVIL, "<b>m"),)))
    texts = {
        "run": page(found, scores(found)),
        "labels": differentiation("evil.csv", "spline", {EVIL: (motion, label_of(motion, "spline"))}),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser, written):
    """Opens a page and waits until all figures are drawn; what it complains about and asks for is kept in lists."""

    def open_page(name: str):
        tab = browser.new_page()
        tab.complaints, tab.asked = [], []
        tab.on("console", lambda message: tab.complaints.append(message.text))
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.on("dialog", lambda dialog: (tab.complaints.append("dialog"), dialog.dismiss()))
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.goto(written[name].as_uri())
        until(tab, "() => [...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.trace'))")
        return tab

    return open_page


@pytest.fixture(scope="module")
def tabs(opened):
    return {name: opened(name) for name in ("run", "labels")}


@pytest.fixture
def shown(tabs):
    """A page that several tests look at, each as it chooses."""

    def show(name: str = "run", *, width: int = 1200, scheme="light", media="screen"):
        tab = tabs[name]
        tab.bring_to_front()
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(media=media, color_scheme=scheme)
        return tab

    return show


def until(tab, predicate: str, value=None) -> None:
    """Wait for something to become true; Playwright's own waiting needs what the page's policy forbids."""
    for _ in range(400):
        if tab.evaluate(predicate, value):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(f"never true: {predicate}")


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(...)`, as the guidelines for accessible content define it."""
    shares = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def style(tab, selector: str, name: str) -> str:
    return tab.eval_on_selector(selector, f"element => getComputedStyle(element).{name}")


@pytest.mark.parametrize("name", ["run", "labels"])
def test_a_page_draws_everything_and_asks_nobody(shown, name):
    tab = shown(name)
    assert tab.complaints == []
    assert [url for url in tab.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    drawn = tab.eval_on_selector_all(
        "figure.picture",
        """figures => figures.map(figure => [
            JSON.parse(figure.querySelector('script').textContent).data.length,
            figure.querySelectorAll('.plot .trace').length, figure.querySelectorAll('.plot .trace path').length])""",
    )
    assert len(drawn) >= (8 if name == "run" else 1)
    for wanted, traces, paths in drawn:
        assert wanted == traces
        assert paths > 0


def test_a_page_may_not_ask_anybody(opened):
    """Even a script that tried would get nothing."""
    tab = opened("labels")
    refused = tab.evaluate("fetch('https://example.org/').then(() => false, () => true)")
    assert refused
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)


def test_names_are_shown_and_not_run(shown):
    tab = shown("labels")
    assert tab.evaluate("typeof ran") == "undefined"
    assert EVIL in tab.inner_text("table")
    texts = tab.eval_on_selector_all(".plot text", "texts => texts.map(text => text.textContent)")
    assert any(f"d_{EVIL} (<b>m/s)" in text for text in texts)


def moving(tab):
    """The paths of the animated figure, and the time it shows."""
    return tab.eval_on_selector(
        "figure.picture:has(.controls)",
        """figure => [[...figure.querySelectorAll('.trace path')].map(path => path.getAttribute('d')).join(),
            figure.querySelector('output').textContent]""",
    )


def test_the_animation_moves_by_keys_and_when_played(shown):
    tab = shown()
    assert tab.is_visible("text=The mechanism in motion")
    tab.focus(".controls input")
    before, start = moving(tab)
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    after, later = moving(tab)
    assert before != after
    assert start != later == tab.get_attribute(".controls input", "aria-valuetext")
    tab.focus(".controls button")
    tab.keyboard.press("Enter")
    assert tab.inner_text(".controls button") == "Pause"
    until(tab, "time => document.querySelector('.controls output').textContent !== time", later)
    tab.keyboard.press("Enter")
    assert tab.inner_text(".controls button") == "Play"
    paused = moving(tab)
    assert paused[0] != after
    tab.keyboard.press("Enter")
    until(tab, "() => document.querySelector('.controls button').textContent === 'Play'")  # it ends by itself
    assert tab.input_value(".controls input") == tab.get_attribute(".controls input", "max")
    assert tab.complaints == []


def test_keys_zoom_and_move_a_figure(shown):
    tab = shown()
    tab.focus(".plot")

    def ranges():
        found = tab.eval_on_selector(".plot", "plot => [plot._fullLayout.xaxis.range, plot._fullLayout.yaxis.range]")
        return np.array(found)

    whole = ranges()
    tab.keyboard.press("+")
    assert np.all(np.ptp(ranges(), axis=1) < np.ptp(whole, axis=1))
    near = ranges()
    tab.keyboard.press("ArrowRight")
    assert np.all(ranges()[0] > near[0])
    np.testing.assert_allclose(ranges()[1], near[1])
    tab.keyboard.press("0")
    np.testing.assert_allclose(ranges(), whole)


def test_the_tabulator_reaches_contents_figures_and_controls(opened):
    tab = opened("run")
    reached = []
    for _ in range(200):
        tab.keyboard.press("Tab")
        name, width = tab.evaluate(
            """() => { const at = document.activeElement, style = getComputedStyle(at);
                return [at.tagName === 'A' ? at.getAttribute('href') : at.classList[0] || at.tagName,
                    style.outlineStyle === 'none' ? '0' : style.outlineWidth]; }"""
        )
        if name == "BODY":
            break
        assert float(width.removesuffix("px")) >= 1, f"no sign that {name} is in focus"
        reached.append(name)
    assert reached[0] == "#content"
    links = tab.eval_on_selector_all("nav a", "links => links.map(link => link.getAttribute('href'))")
    assert reached[1 : 1 + len(links)] == links
    assert reached.count("plot") == tab.locator(".plot").count()
    assert {"BUTTON", "INPUT", "SUMMARY"} <= set(reached)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(shown, scheme):
    tab = shown(scheme=scheme)
    ground = style(tab, "body", "backgroundColor")
    assert (luminance(ground) < 0.05) == (scheme == "dark")
    for selector in ("p", "nav a", "td", "summary", ".controls button", "figcaption"):
        assert contrast(style(tab, selector, "color"), ground) >= 4.5, selector
    soft = style(tab, ".facts div", "backgroundColor")
    for selector in (".facts dt", ".facts dd", ".facts small", "pre"):
        assert contrast(style(tab, selector, "color"), soft) >= 4.5, selector
    for text in (".xtitle", ".ytick text", ".legendtext"):
        assert contrast(style(tab, text, "fill"), ground) >= 4.5, text
    lines = tab.eval_on_selector_all(".trace .js-line", "lines => [...new Set(lines.map(line => line.style.stroke))]")
    for colour in lines:
        assert contrast(colour, ground) >= 3, colour


def test_figures_follow_when_the_reader_changes_to_the_dark(shown):
    tab = shown(scheme="light")
    before = [style(tab, selector, name) for selector, name in (("body", "backgroundColor"), (".xtitle", "fill"))]
    tab.emulate_media(color_scheme="dark")
    until(tab, "fill => getComputedStyle(document.querySelector('.xtitle')).fill !== fill", before[1])
    assert style(tab, "body", "backgroundColor") != before[0]
    assert contrast(style(tab, ".xtitle", "fill"), style(tab, "body", "backgroundColor")) >= 4.5


def test_paper_is_light_has_no_controls_and_holds_every_figure(shown):
    tab = shown(scheme="dark", width=PAPER, media="print")
    until(tab, f"() => [...document.querySelectorAll('.main-svg')].every(svg => svg.clientWidth <= {PAPER})")
    assert luminance(style(tab, "body", "backgroundColor")) == 1
    assert contrast(style(tab, ".xtitle", "fill"), "rgb(255, 255, 255)") >= 4.5
    for control in ("nav", ".skip", ".controls", ".modebar-container"):
        assert not tab.is_visible(control), control
    assert tab.evaluate("document.documentElement.scrollWidth") <= PAPER
    heights = tab.eval_on_selector_all("figure.picture", "figures => figures.map(figure => figure.clientHeight)")
    assert max(heights) < 1000


def test_a_narrow_screen_scrolls_figures_and_not_the_page(shown):
    tab = shown(width=400)
    until(tab, "() => document.documentElement.scrollWidth <= 400")
    assert tab.is_visible("nav a")


def test_a_report_is_small_enough_to_send(written):
    assert all(path.stat().st_size < 8e6 for path in written.values())
