"""Take the README's pictures of the page, from the embedded example.

python benchmarks/screenshots.py

Starts a server of its own, and needs chromium and chromedriver. With `--preset default` the
models are better, and take many minutes.
"""

import argparse
import base64
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
WIDTH, HEIGHT = 1240, 840
TRAINED = 1800  # seconds to wait for a model at most
LARGEST = 200_000  # bytes of a picture
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CALLED = {"fast": "Quick look", "default": "Thorough"}
TARGET = "glucose"
ANSWERS = {"age": "61", "bmi": "33.5", "blood pressure": "141", "diabetic": "no"}


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server, and give its address."""
    serve = [sys.executable, "-c", "from hhvaem.cli import main; main()", "serve", "--no-open"]
    process = subprocess.Popen(
        [*serve, "--port", "0", "--keep", str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found.group()
                return
        raise RuntimeError("the server has ended before it began")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def browser(folder: Path) -> Iterator[Chrome]:
    """Start a browser."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield driver
    finally:
        driver.quit()


def see(driver: Chrome, selector: str, seconds: float = 60) -> WebElement:
    def shown(_: object) -> list[WebElement]:
        found = driver.find_elements(By.CSS_SELECTOR, selector)
        return [each for each in found if each.is_displayed()]

    return WebDriverWait(driver, seconds).until(shown)[0]


def click(driver: Chrome, text: str, within: str = "main") -> None:
    see(driver, within)
    path = f".//*[self::button or self::a or self::summary][normalize-space()='{text}']"
    area = driver.find_element(By.CSS_SELECTOR, within)
    WebDriverWait(driver, 60).until(lambda _: area.find_elements(By.XPATH, path))
    area.find_elements(By.XPATH, path)[0].click()


def choose(driver: Chrome, preset: str, within: str) -> None:
    labels = driver.find_elements(By.CSS_SELECTOR, f"{within} .choice label")
    next(label for label in labels if CALLED[preset] in label.text).click()


def save(driver: Chrome, name: str) -> None:
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    content = base64.b64decode(taken["data"])
    if len(content) > LARGEST:
        raise RuntimeError(f"{name} has {len(content)} bytes, more than {LARGEST}")
    (FIGURES / name).write_bytes(content)
    print(f"{FIGURES / name}: {len(content) / 1000:.0f} kB")


def fill(driver: Chrome, address: str, preset: str) -> None:
    """Fill the example, and show what a cell could be."""
    driver.get(f"{address}/#/")
    click(driver, "Use the example")
    see(driver, ".grid td.hole")
    choose(driver, preset, "aside section")
    click(driver, "Fill the holes", "aside form")
    # A cell in the middle of the picture.
    cell = see(driver, '.filled-cell[data-row="3"][data-column="6"]', TRAINED)
    ActionChains(driver).move_to_element(cell).perform()
    see(driver, ".law svg")
    time.sleep(0.5)
    save(driver, "web-fill.png")


def ask(driver: Chrome, address: str, preset: str) -> None:
    """Answer some questions about a patient."""
    driver.get(f"{address}/#/ask")
    see(driver, "main form select")
    choose(driver, preset, "main form")
    Select(see(driver, "main form select")).select_by_visible_text(TARGET)
    click(driver, "Train it to ask")
    see(driver, "form .fields", TRAINED)
    click(driver, "Ask the first question")
    for _ in range(2):
        before = see(driver, ".question h2")
        answer(driver, before.text.removeprefix("What is ").removesuffix("?"))
        WebDriverWait(driver, 60).until(staleness_of(before))
    time.sleep(1.5)  # until nothing moves
    save(driver, "web-ask.png")


def answer(driver: Chrome, column: str) -> None:
    if column not in ANSWERS:
        click(driver, "I do not know", ".question")
        return
    for label in driver.find_elements(By.CSS_SELECTOR, ".question .levels label"):
        if label.text.strip() == ANSWERS[column]:
            label.click()
    for field in driver.find_elements(By.CSS_SELECTOR, ".question input[type=text]"):
        field.send_keys(ANSWERS[column])
    click(driver, "Answer", ".question")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=sorted(CALLED), default="fast")
    preset = parser.parse_args().preset
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder, "kept")) as address,
        browser(Path(folder, "profile")) as driver,
    ):
        fill(driver, address, preset)
        ask(driver, address, preset)


if __name__ == "__main__":
    main()
