"""A browser that looks at the page, and what its tests say to it."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
# What the browser says where the server refuses something, as some tests want it to.
REFUSED = ("status of 400", "status of 409", "status of 413")


def started(profile: Path) -> Chrome:
    """Start a browser with nothing in its memory."""
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=Service(DRIVER))


class Page:
    """The page as a person has it.

    Parameters
    ----------
    driver
        The browser.
    address
        Of the server, without a slash at the end.
    """

    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, path: str = "/") -> None:
        """Go to a view."""
        self.driver.get(f"{self.address}/#{path}")
        self.see("main h1")

    def look(self, *, width: int = 1280, dark: bool = False) -> None:
        """Have another screen, and other wishes."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def wait(self, holds: Callable[[], Any], what: str, seconds: float = 30) -> Any:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # What was found may be gone when it is asked: it is looked for again.
            with contextlib.suppress(StaleElementReferenceException):
                found = holds()
                if found:
                    return found
            time.sleep(0.1)
        raise AssertionError(f"{what} did not come in {seconds} seconds; there is:\n{self.text()}")

    def all(self, selector: str) -> list[WebElement]:
        """Give all elements that there are."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def see(self, selector: str, seconds: float = 30) -> WebElement:
        """Wait for an element that is shown."""
        return self.wait(
            lambda: next((each for each in self.all(selector) if each.is_displayed()), None),
            selector,
            seconds,
        )

    def read(self, text: str, seconds: float = 30) -> None:
        """Wait for a text."""
        self.wait(lambda: text in self.text(), repr(text), seconds)

    def text(self) -> str:
        """Give what is to be read: nothing that is folded away."""
        return str(self.run("return document.querySelector('main').innerText"))

    def at(self, part: str, seconds: float = 30) -> None:
        """Wait until the address has a part."""
        self.wait(lambda: part in self.driver.current_url, f"the address {part}", seconds)

    def click(self, text: str, within: str = "main") -> None:
        """Click what has this text: a button, a link, a label or what unfolds."""

        def shown() -> WebElement | None:
            found = self.all(", ".join(f"{within} {tag}" for tag in CLICKED))
            return next((e for e in found if e.is_displayed() and e.text.strip() == text), None)

        element = self.wait(shown, repr(text))
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def upload(self, path: Path) -> None:
        """Choose a file."""
        self.driver.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(path))

    def run(self, script: str, *given: Any) -> Any:
        """Run a script."""
        return self.driver.execute_script(script, *given)

    def fetched(self, address: str) -> tuple[int, str, str]:
        """Ask as the page would: the status, the name of the file, and its beginning."""
        return tuple(self.driver.execute_async_script(FETCH, address))

    def made(self, module: str, script: str) -> Any:
        """Run a script with what a module of the page has, `part`, and give what it returns.

        What it puts into `box` stands at the end of the page, and looks as it would in a view.
        """
        return self.driver.execute_async_script(
            MADE.replace("SCRIPT", script), f"{self.address}/page/{module}"
        )

    @property
    def fits(self) -> bool:
        """Whether nothing reaches over the right edge."""
        return self.run("return document.documentElement.scrollWidth <= innerWidth")

    def complaints(self) -> list[str]:
        """Give what the browser has said since it was asked last, refusals left out."""
        said = self.driver.get_log("browser")
        told = [each["message"] for each in said if each["level"] in ("SEVERE", "WARNING")]
        return [each for each in told if not any(word in each for word in REFUSED)]

    def strangers(self) -> list[str]:
        """Give all addresses but the server's that the page has asked for anything."""
        logged = (json.loads(each["message"]) for each in self.driver.get_log("performance"))
        events = (each["message"] for each in logged)
        asked = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        # The browser's own: its first page, and pictures in its fields for dates.
        own = (self.address, "data:", "about:", "chrome:")
        return [address for address in asked if not address.startswith(own)]


MADE = """
const [module, done] = arguments;
const box = document.createElement("div");
document.querySelector("main").append(box);
import(module).then((part) => { SCRIPT }).then(done, (problem) => done(String(problem)));
"""
CLICKED = ("button", "a", "label", "summary")
FETCH = """
const [address, done] = arguments;
fetch(address).then(async (answer) => {
  const text = await answer.text();
  done([answer.status, answer.headers.get("content-disposition") ?? "", text.slice(0, 400)]);
});
"""
