"""The journey from a table with holes to a filled one, in a browser."""

import shlex
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from browsing import Page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from hhvaem.web.refusals import LABELS

TRAINED = 300  # seconds, on a machine that has other things to do


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A table that is learned in no time, with two columns that depend on each other."""
    rng = np.random.default_rng(0)
    size = rng.normal(170, 10, 80)
    lines = ["id,size,weight,eyes"]
    for i, each in enumerate(size):
        weight = "?" if i % 4 == 1 else f"{each - 100 + rng.normal():.1f}"
        eyes = "" if i % 7 == 2 else rng.choice(["blue", "brown"])
        lines.append(f"person {i:03},{each:.1f},{weight},{eyes}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_from_a_file_to_its_filled_table(page: Page, small: Path) -> None:
    page.click("Does a text in the file stand for a missing value?")
    page.see("details input[type=text]").send_keys("?, not known")
    page.upload(small)
    page.at("/table/")
    page.read("people.csv")
    page.see("td.hole")
    # The identifier is left as it is, and it is said why.
    page.see(".columns .left-out")
    assert "identifier" in page.see(".refused").text
    assert len(page.all(".strip")) == 4

    page.click("Fill the holes", "main form")
    page.at("/job/")
    page.see("progress")
    assert page.all("button")
    page.driver.refresh()
    page.read("people.csv")
    page.at("/model/", TRAINED)

    cell = page.see(".filled-cell")
    assert "filled in" in cell.get_attribute("aria-label")
    ActionChains(page.driver).move_to_element(cell).perform()
    page.see(".law svg", 60)
    assert "in nine of ten cases" in page.see(".law .words").text
    # By keys, too: the law of the next cell is shown when it has the focus.
    before = page.see(".law .of").text
    page.driver.execute_script("arguments[0].focus()", cell)
    ActionChains(page.driver).send_keys(Keys.ARROW_DOWN).perform()
    page.wait(lambda: page.see(".law .of").text != before, "another law")
    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    page.wait(lambda: not page.all(".law:not([hidden])"), "the end of the law")

    page.click("Columns", ".tabs")
    page.see(".figure svg")
    page.read("were filled in")
    model = page.driver.current_url.split("#")[1].rsplit("/", 1)[0]
    page.click("Download", ".tabs")
    page.read("Several completed tables")
    for name in ("save", "download"):
        page.open(f"{model}/{name}")
        page.read("Several completed tables")
    links = [link.get_attribute("href") for link in page.all("main a.button")]
    assert len(links) == 7
    for link in links:
        status, name, _ = page.fetched(link)
        assert status == 200, link
        assert "attachment" in name
    _, _, table = page.fetched(next(link for link in links if link.endswith("filled.csv")))
    assert table.startswith('"id","size","weight","eyes"')
    assert ",," not in table
    fills_by_the_printed_command(page, small)


def fills_by_the_printed_command(page: Page, table: Path) -> None:
    """Run the command that stands beside the model, where the model and the table lie."""
    program, *command = shlex.split(page.see("main code").text)
    assert program == "hhvaem"
    link = page.see("main a.button[href$='/file']").get_attribute("href")
    cookies = "; ".join(f"{each['name']}={each['value']}" for each in page.driver.get_cookies())
    with urlopen(Request(link, headers={"Cookie": cookies})) as answer:
        (table.parent / "people.hhvaem").write_bytes(answer.read())
    run = [sys.executable, "-c", "from hhvaem.cli import main; main()", *command]
    ended = subprocess.run(run, cwd=table.parent, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    filled = (table.parent / "filled.csv").read_text(encoding="utf-8")
    assert ",," not in filled
    assert "?" not in filled


def test_a_file_is_dropped(page: Page) -> None:
    page.run(DROP)
    page.at("/table/")
    page.read("dropped.csv")


DROP = """
const files = new DataTransfer();
files.items.add(new File(["a,b\\n1,2\\n,3\\n4,5\\n"], "dropped.csv"));
const drop = new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: files});
document.querySelector(".drop").dispatchEvent(drop);
"""


def test_a_kind_is_changed(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    select = page.see("select[aria-label='Kind of visits']")
    Select(select).select_by_visible_text("any number")
    page.wait(lambda: page.all("[aria-label='Kind of visits']")[0].is_enabled(), "the change")
    page.driver.refresh()
    kept = page.see("select[aria-label='Kind of visits']")
    assert kept.get_attribute("value") == "real"


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """A table of which much is to be said, and with a column of a strange name."""
    lines = ["patient id,ward,weight,__proto__,remark"]
    for i in range(60):
        ward = ("Innere", "Neuro", "-")[i % 3]
        weight = -999 if i % 9 == 0 else 60 + i % 17
        lines.append(f"{1000 + i},{ward},{weight},{i % 4},text no {i}")
    path = tmp_path / "messy.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_notes_have_the_words_of_the_page(page: Page, messy: Path) -> None:
    page.upload(messy)
    page.at("/table/")
    page.see(".columns .why")
    text = page.text()
    for strange in ("kinds=", "--", "command line", "'ignored'", "'categorical'"):
        assert strange not in text
    notes = {each.text for each in page.all(".columns .why")}
    assert "looks like a row number; choosing 'left as it is' leaves it out" in notes
    assert any(note.startswith("'-'") and "on the start page" in note for note in notes)
    assert any(note.startswith("-999") and "on the start page" in note for note in notes)
    assert "leave it as it is or model it anyway as 'levels'" in page.see(".refused").text
    # The labels that sentences of the server have are those of the selects.
    options = page.all(".columns option")
    called = {each.get_attribute("value"): each.get_attribute("text") for each in options}
    assert called.items() <= LABELS.items()
    assert {"ignored", "categorical", "real"} <= set(called)


def test_a_kind_that_does_not_fit_is_told_at_its_select(page: Page, messy: Path) -> None:
    page.upload(messy)
    page.at("/table/")
    select = page.see("select[aria-label='Kind of ward']")
    Select(select).select_by_visible_text("two levels")
    problem = page.see(".columns .problem")
    assert "'ward' cannot be 'two levels'" in problem.text
    assert problem.text.endswith("choose 'levels'.")
    assert page.run("return document.activeElement") == select
    assert select.get_attribute("value") == "categorical"
    assert select.get_attribute("aria-invalid") == "true"
    assert select.get_attribute("aria-describedby") == problem.get_attribute("id")


def test_a_column_of_any_name_gets_another_kind(page: Page, messy: Path) -> None:
    page.upload(messy)
    page.at("/table/")
    for name, kind in (("__proto__", "any number"), ("weight", "levels")):
        Select(page.see(f"select[aria-label='Kind of {name}']")).select_by_visible_text(kind)
        page.wait(
            lambda name=name: page.all(f"[aria-label='Kind of {name}']")[0].is_enabled(),
            "the change",
        )
    page.driver.refresh()
    assert page.see("select[aria-label='Kind of __proto__']").get_attribute("value") == "real"
    assert page.see("select[aria-label='Kind of weight']").get_attribute("value") == "categorical"


def test_seconds_go_on_while_the_server_is_silent(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    page.read("about a minute")
    page.run(SILENCED)
    page.click("Fill the holes", "main form")
    page.at("/job/")
    under = ".facts div:last-child"
    page.wait(lambda: "under way for" in page.see(under).text, "the time")
    page.wait(lambda: page.run("return window.silent"), "the silence")
    before = page.see(under).text
    page.wait(lambda: page.see(under).text != before, "another second")
    page.click("Cancel")
    page.read("Cancelled")


SILENCED = """
const { addEventListener } = EventSource.prototype;
EventSource.prototype.addEventListener = function (name, deed) {
  addEventListener.call(this, name, (event) => {
    if (name === "job" && window.silent) return;
    deed(event);
    if (name === "job") window.silent = JSON.parse(event.data).state === "running";
  });
};
"""


def test_levels_are_put_in_order(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    select = page.see("select[aria-label='Kind of smoker']")
    Select(select).select_by_visible_text("levels in order")
    page.see("dialog[open]")
    page.see("button[aria-label='Move never up']").click()
    page.click("Use this order", "dialog")
    page.wait(lambda: not page.all("dialog"), "the end of the dialog")
    page.wait(
        lambda: page.all("[aria-label='Kind of smoker']")[0].get_attribute("value") == "ordinal",
        "the order",
    )
    page.read("'current', 'never', 'former'")


def test_training_is_cancelled(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    page.click("Fill the holes", "main form")
    page.at("/job/")
    page.click("Cancel")
    page.read("Cancelled. Nothing was kept.")
    page.driver.refresh()
    page.read("Cancelled. Nothing was kept.")
    page.click("Back to the table")
    page.at("/table/")


def test_a_bad_file_is_refused_with_a_sentence(page: Page, tmp_path: Path) -> None:
    bad = tmp_path / "picture.csv"
    bad.write_bytes(bytes(range(256)) * 50)
    page.upload(bad)
    problem = page.see(".problem[role=alert]")
    assert problem.text.endswith(".")
    assert "Traceback" not in problem.text
    # Beside the place where files are dropped, which is ready for another one.
    assert page.run("return arguments[0].closest('.card').querySelector('.drop') !== null", problem)
    assert "Drop a file here" in page.text()


def test_a_scale_has_more_than_one_number(page: Page) -> None:
    found = page.made(
        "plots/scale.js",
        "return [part.ticks(51, 149, 3.9), part.ticks(0.31, 0.44, 1), part.ticks(0, 10, 5)];",
    )
    assert found == [[60, 80, 100, 120, 140], [0.35, 0.4], [0, 2, 4, 6, 8, 10]]


def test_a_table_is_removed(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    page.open()
    page.click("Remove", ".entries")
    page.click("Keep", ".entries")
    page.click("Remove", ".entries")
    page.click("Remove for good", ".entries")
    page.wait(lambda: "clinic.csv" not in page.text(), "the end of the table")


@pytest.mark.slow
def test_the_example_and_whether_it_can_be_trusted(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    page.click("Fill the holes", "main form")
    page.at("/job/")
    page.see(".curve svg", TRAINED)
    page.driver.refresh()
    page.see(".curve svg")
    page.at("/model/", TRAINED)
    page.click("Can it be trusted?", ".tabs")
    page.click("Check the fills")
    page.see("progress")
    page.see(".verdicts li", 2 * TRAINED)
    assert len(page.all(".verdicts li")) == 12
    words = {each.text for each in page.all(".verdicts .verdict")}
    assert any("honest" in word or "trust" in word for word in words)
    link = page.see("a[href$='report.html']").get_attribute("href")
    status, name, _ = page.fetched(link)
    assert (status, "attachment" in name) == (200, True)
