"""How the page looks: on a phone, in the dark, with hostile names, by keys alone."""

from pathlib import Path

import pytest
from browsing import Page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

PHONE = 360
HOSTILE = (
    '<img src=x onerror="window.owned=1">',
    "<script>window.owned=1</script>",
    "javascript:alert(1)",
    "=cmd|' /C calc'!A0",
    "x" * 200,
    "\u202eright to left 🙂",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A table whose columns have names that want more than to be shown."""
    path = tmp_path / "<b>table.csv"
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in HOSTILE)
    rows = [
        ",".join("" if (i + j) % 5 == 0 else str((7 * i + j) % 23) for j in range(len(HOSTILE)))
        for i in range(40)
    ]
    path.write_text("\n".join([quoted, *rows]) + "\n", encoding="utf-8")
    return path


def views(page: Page) -> list[str]:
    """Give addresses of views that need no training."""
    page.open("/")
    page.click("Use the example")
    page.at("/table/")
    table = page.driver.current_url.split("#")[1]
    page.open("/ask")
    page.click("glucose", ".entries")
    page.at("/ask/")
    setup = page.driver.current_url.split("#")[1]
    page.click("Ask the first question")
    page.at("/session/")
    page.see(".question")
    session = page.driver.current_url.split("#")[1]
    return ["/", table, "/ask", setup, session, "/nowhere", "/table/gone"]


def test_a_phone_has_no_need_to_scroll_sideways(page: Page) -> None:
    addresses = views(page)
    page.look(width=PHONE)
    for address in addresses:
        page.open(address)
        page.see("main h1")
        assert page.run("return innerWidth") == PHONE, address
        assert page.fits, address
    # A table that is not here is told as a sentence; the browser notes the 404 as well.
    complaints = page.complaints()
    assert all("404" in each and "/api/tables/gone" in each for each in complaints)


def test_columns_and_what_is_said_of_them_have_room(page: Page, tmp_path: Path) -> None:
    long = "age at admission to the hospital in whole years"
    path = tmp_path / "long.csv"
    path.write_text("\n".join([f"number,{long},ward", *(f"{i},{i % 9},-" for i in range(40))]))
    page.upload(path)
    page.at("/table/")
    for width in (1280, 1000, 390):
        page.look(width=width)
        page.wait(lambda: page.fits, "a page that fits")
        assert page.run("const {scrollWidth, clientWidth} = document.querySelector('.columns');"
                        "return scrollWidth <= clientWidth")  # fmt: skip
        for note in page.all(".columns .why"):
            assert note.size["width"] > 0.8 * page.see(".columns").size["width"]
        select = page.see(f"select[aria-label='Kind of {long}']").rect
        assert select["x"] + select["width"] <= width
    # A long name does not push its cells off a phone.
    edge = page.run("return document.querySelector('.grid tbody td:nth-of-type(2)')"
                    ".getBoundingClientRect().right")  # fmt: skip
    assert edge <= 390


def test_dark_by_the_system_and_by_the_button(page: Page) -> None:
    def ground() -> str:
        return page.run("return getComputedStyle(document.body).backgroundColor")

    page.look(dark=False)
    light = ground()
    page.look(dark=True)
    dark = page.wait(lambda: ground() != light and ground(), "the dark")
    page.click("Light", "header")
    assert ground() == light
    page.driver.refresh()
    page.see("main h1")
    assert ground() == light
    page.click("Dark", "header")
    assert ground() == dark


def test_hostile_names_are_only_shown(page: Page, hostile: Path) -> None:
    page.upload(hostile)
    page.at("/table/")
    page.see(".columns")
    for width in (1280, PHONE):
        page.look(width=width)
        page.wait(lambda: page.fits, "a page that fits")
    shown = page.run("return document.querySelector('.columns').textContent")
    for name in HOSTILE:
        assert name.replace("\u202e", "_") in shown  # which would turn the letters after it
    assert "\u202e" not in shown
    assert not page.run("return window.owned")
    assert "<b>table.csv" in page.driver.title
    assert not page.all("main img, main script, main b")
    page.click("Or ask about a new case")
    page.open("/ask")
    page.see("main form select")
    assert page.fits


@pytest.mark.slow
def test_hostile_names_are_only_shown_when_they_are_filled(page: Page, hostile: Path) -> None:
    page.upload(hostile)
    page.at("/table/")
    page.click("Fill the holes", "main form")
    page.at("/model/", 300)
    page.look(width=PHONE)
    page.see(".filled-cell").click()
    page.see(".law svg", 60)
    assert page.fits
    page.see(".law [aria-label=Close]").click()
    page.click("Columns", ".tabs")
    page.see(".figure svg")
    assert page.fits
    page.open("/ask")
    Select(page.see("main form select")).select_by_index(1)
    page.click("Train it to ask")
    page.at("/ask/", 300)
    assert page.fits
    page.click("Ask the first question")
    page.see(".question")
    assert page.fits
    page.see(".question input").send_keys("7")
    page.click("Answer", ".question")
    page.see(".figure svg .step.now")
    assert page.fits
    assert not page.run("return window.owned")
    assert not page.all("main img, main script, main b")


def test_the_page_can_be_used_by_keys(page: Page) -> None:
    focus = "return document.activeElement"
    page.driver.refresh()
    page.see("main h1")
    assert page.run(f"{focus}.tagName") == "H1"
    keys = ActionChains(page.driver)
    keys.send_keys(Keys.TAB).perform()
    assert page.run(f"{focus}.id") == "file"
    keys.send_keys(Keys.TAB).perform()
    assert page.run(f"{focus}.textContent") == "Use the example"
    keys.send_keys(Keys.ENTER).perform()
    page.at("/table/")
    page.wait(lambda: page.run(f"{focus}.textContent") == "clinic.csv", "the focus at the heading")


def test_everything_has_a_name_for_screen_readers(page: Page) -> None:
    for address in views(page)[:5]:
        page.open(address)
        page.see("main h1")
        nameless = page.run(NAMELESS)
        assert not nameless, (address, nameless)
        landmarks = page.run("return document.querySelectorAll('header, nav, main, footer').length")
        assert landmarks >= 4
        assert page.run("return document.querySelectorAll('h1').length") == 1


NAMELESS = """
const named = (node) =>
  node.getAttribute("aria-label") || node.getAttribute("aria-labelledby") ||
  node.textContent.trim() || node.labels?.length;
const wanted = "button, a, input, select, summary, progress, svg[role=img]";
return [...document.querySelectorAll(wanted)].filter((node) => !named(node))
  .map((node) => node.outerHTML.slice(0, 200));
"""
