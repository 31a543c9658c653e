"""Links on other pages that lead here."""

from browsing import Page
from selenium.webdriver.common.by import By


def test_a_link_on_another_page_leaves_one_s_tables(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    cookies = page.driver.get_cookies()
    for path in ("/", "/?token=whatever"):
        page.driver.get(f"data:text/html,<a href='{page.address}{path}'>there</a>")
        page.driver.find_element(By.LINK_TEXT, "there").click()
        page.see("main h1")  # after a page that only sends on
        page.wait(lambda: page.driver.current_url.rstrip("#/") == page.address, "the page")
        page.read("clinic.csv")
        assert page.driver.get_cookies() == cookies
