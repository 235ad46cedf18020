"""Reports in a real browser: Debian's chromium, driven by its chromium-driver."""

import base64
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from dynamite_fl.report.live_server import LiveServer
from dynamite_fl.report.write import write_report

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
# All charts, and of which traces there is something on the screen.
DRAWN = """
return [...document.querySelectorAll(".plot")].map((plot) => plot.querySelectorAll(
  ".main-svg .scatterlayer .trace path, .main-svg .scatterlayer .trace text,"
  + " .main-svg .barlayer .trace path, .main-svg .heatmaplayer image").length)
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        reason = "no Chromium: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as started:
        yield started


@pytest.fixture(scope="module")
def pages(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    names = ("plain", "stream", "regression", "versus", "errors")
    return {name: write_report([runs / name], folder / f"{name}.html").file for name in names}


def opened(
    browser: webdriver.Chrome, page: Path | str, *, width: int = 1280, dark: bool = False
) -> tuple[list[str], list[str]]:
    """Show a page; what the console says, and what was asked of a network."""
    address = page if isinstance(page, str) else page.as_uri()
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    logs(browser, "performance")  # what came before is not of this page
    logs(browser, "browser")
    browser.get(address)
    console = [entry["message"] for entry in logs(browser, "browser")]
    events = [json.loads(entry["message"])["message"] for entry in logs(browser, "performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return console, [url for url in asked if not url.startswith(("data:", address))]


def logs(browser: webdriver.Chrome, kind: str) -> list[Any]:
    return list(browser.get_log(kind))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("plain", 390),
        ("versus", 1280),
        *(
            pytest.param(name, width, marks=pytest.mark.slow)
            for name, width in (
                ("plain", 1280),
                ("stream", 1280),
                ("stream", 390),
                ("versus", 390),
                ("regression", 390),
                ("errors", 1280),
            )
        ),
    ],
)
def test_all_is_drawn_without_errors_or_network(
    browser: webdriver.Chrome, pages: dict[str, Path], name: str, width: int
) -> None:
    console, asked = opened(browser, pages[name], width=width)
    assert console == []
    assert asked == []
    drawn = browser.execute_script(DRAWN)
    assert len(drawn) == len(re.findall('class="plot"', pages[name].read_text()))
    assert len(drawn) >= 10
    assert all(drawn), drawn
    across = browser.execute_script("return document.documentElement.scrollWidth")
    assert across <= width  # the page itself does not scroll sideways


def luminance(color: str) -> float:
    red, green, blue = (int(part) for part in re.findall(r"\d+", color)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [pytest.param(False, marks=pytest.mark.slow), True])
def test_pages_and_charts_follow_dark_mode(
    browser: webdriver.Chrome, pages: dict[str, Path], dark: bool
) -> None:
    opened(browser, pages["plain"], dark=dark)
    paper, tick = browser.execute_script("""
      const tick = document.querySelector(".plot .xtick text");
      return [getComputedStyle(document.body).backgroundColor, getComputedStyle(tick).fill]
    """)
    darker, lighter = sorted((luminance(paper), luminance(tick)))
    assert lighter - darker > 90  # words can be read on it
    assert (luminance(paper) < 60) == dark


@pytest.mark.slow
def test_charts_are_drawn_anew_when_the_scheme_or_the_width_changes(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    opened(browser, pages["plain"])
    state = """
      const plot = document.querySelector(".plot");
      const look = () => [
        plot.querySelector(".main-svg").getBoundingClientRect().width,
        getComputedStyle(plot.querySelector(".js-line")).stroke,
      ];
      const done = arguments[arguments.length - 1];
      requestAnimationFrame(() => requestAnimationFrame(() => done(look())));
    """
    before = browser.execute_async_script(state)
    size = {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def both_changed(_: webdriver.Chrome) -> bool:
        width, colour = browser.execute_async_script(state)
        return bool(width != before[0] and colour != before[1])

    WebDriverWait(browser, 300).until(both_changed)


@pytest.mark.slow
def test_it_can_be_printed_even_from_dark_mode(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    opened(browser, pages["versus"], dark=True)
    browser.execute_script("""
      addEventListener("beforeprint", () => {
        window.onPaper = [...document.querySelectorAll(".plot")].map((plot) => [
          plot.querySelector(".main-svg").getBoundingClientRect().right,
          getComputedStyle(document.body).backgroundColor,
        ]);
      });
    """)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    seen = browser.execute_script("return window.onPaper")
    assert seen
    assert all(right <= 681 for right, _ in seen)  # a sheet is some 690 pixels wide
    assert {paper for _, paper in seen} == {"rgb(255, 255, 255)"}
    width = browser.execute_script("return document.querySelector('.plot').clientWidth")
    drawn = browser.execute_script("return document.querySelector('.main-svg').clientWidth")
    assert abs(width - drawn) <= 1  # back to the screen


def test_names_in_a_run_cannot_do_anything(
    browser: webdriver.Chrome, runs: Path, tmp_path: Path
) -> None:
    evil = "<script>window.harm=1<&"
    shutil.copytree(runs / "plain", tmp_path / evil)
    job = tmp_path / evil / "job.toml"
    bad = "</script><script>window.harm=2</script><img src=x onerror=window.harm=3>"
    job.write_text(job.read_text().replace("camera-1", bad).replace('"softmax"', f"'{bad}'"))
    page = write_report([tmp_path / evil], tmp_path / "page.html").file
    console, asked = opened(browser, page)
    assert browser.execute_script("return window.harm ?? null") is None
    assert evil in browser.title
    assert bad in browser.execute_script("return document.body.innerText")
    assert asked == []
    assert console == []


LIVE = """
const text = (id) => document.getElementById(id).textContent;
return [text("live"), text("below"), document.querySelectorAll(".plot .main-svg").length];
"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_live_page_follows_a_run(
    browser: webdriver.Chrome, runs: Path, tmp_path: Path, width: int
) -> None:
    folder = tmp_path / "tuesday"
    shutil.copytree(runs / "plain", folder)
    (folder / "ended.txt").unlink()
    lines = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text("".join(lines[:2]))
    with LiveServer([folder], "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            console, _ = opened(browser, server.url, width=width)
            assert console == []
            waits = WebDriverWait(browser, 300)
            waits.until(lambda _: browser.execute_script(LIVE)[0].startswith("Live"))
            assert "not ended yet" in browser.execute_script(LIVE)[1]
            browser.execute_script("document.querySelector('.plot').dataset.mine = 'kept'")
            (folder / "history.jsonl").write_text("".join(lines))
            (folder / "ended.txt").write_text("rounds")
            waits.until(lambda _: "ended by the rounds" in browser.execute_script(LIVE)[1])
            drawn = browser.execute_script(DRAWN)
            assert len(drawn) >= 10
            assert all(drawn), drawn
            points = "return document.getElementById('chart-5').data[0].x.length"
            assert browser.execute_script(points) == len(lines)  # local steps, of every round
            kept = browser.execute_script("return document.querySelector('.plot').dataset.mine")
            assert kept == "kept"  # charts are not made anew
            across = browser.execute_script("return document.documentElement.scrollWidth")
            assert across <= width
        finally:
            server.shutdown()
            thread.join()
    waits.until(lambda _: browser.execute_script(LIVE)[0].startswith("No connection"))


def test_the_job_can_be_copied(browser: webdriver.Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["plain"])
    words = browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      const button = document.querySelectorAll("button[data-copies]")[1];
      button.click();
      setTimeout(() => done(button.textContent), 300);
    """)
    assert words in ("Copied", "Selected")
