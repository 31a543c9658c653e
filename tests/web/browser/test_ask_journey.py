"""The journey through questions and answers, in a browser."""

from browsing import Page
from selenium.webdriver.support.select import Select


def begun(page: Page) -> None:
    """Begin to ask the model that the server was started with."""
    page.click("Ask", "header")
    page.at("/ask")
    page.click("glucose", ".entries")
    page.at("/ask/")
    page.see("form .fields")


def field(page: Page, label: str) -> object:
    """Find the field with a label."""
    labels = [each for each in page.all("main label.field") if each.is_displayed()]
    found = next(each for each in labels if each.text.split("\n")[0].strip() == label)
    return found.find_element("css selector", "input, select")


def answer(page: Page, value: str) -> None:
    """Give a value to whatever is asked."""
    before = page.run("return document.querySelector('.question h2').textContent")
    radios = page.all(".question .levels label")
    selects = page.all(".question form select")
    if radios:
        radios[-1].click()
    elif selects:
        Select(selects[0]).select_by_index(1)
    elif page.all(".question input[type=date]"):
        page.run("document.querySelector('.question input').value = '2024-05-01'")
    else:
        page.see(".question input[type=text]").send_keys(value)
    page.click("Answer", ".question")
    page.wait(lambda: asked(page) != before, "the next question")


def asked(page: Page) -> str | None:
    return page.run("return document.querySelector('.question h2')?.textContent ?? null")


def test_from_what_is_known_to_enough(page: Page) -> None:
    begun(page)
    Select(field(page, "sex")).select_by_visible_text("female")
    page.click("When is it enough?")
    field(page, "Ask at most so many questions").send_keys("3")
    page.click("What does it cost to find out?")
    page.click("Ask the first question")
    page.at("/session/")
    page.see(".question")
    at_the_start = page.see(".prediction .value").text
    assert "in nine of ten cases" in page.see(".prediction .words").text
    page.click("What would the answer change?")
    page.see(".changes li", 60)

    answer(page, "40")
    # Ready for the next answer, which a screen reader is told.
    assert page.run("return document.activeElement.closest('.question') !== null")
    assert "Next question" in page.run("return document.getElementById('live').textContent")
    page.see(".figure svg .step.now")

    page.driver.refresh()
    page.see(".question")
    page.see(".figure svg .step.now")

    unknown = asked(page)
    page.click("I do not know", ".question")
    page.wait(lambda: asked(page) != unknown, "the next question")
    page.read("not known for now")
    never = asked(page)
    page.click("Cannot be measured", ".question")
    page.wait(lambda: asked(page) != never, "the next question")
    page.click("Take back the last answer")
    page.wait(lambda: asked(page) == never, "the question before")

    for _ in range(3):
        if asked(page):
            answer(page, "30")
    page.see(".stop")
    assert page.see(".prediction .value").text != at_the_start
    for link in page.all("main a.button"):
        status, name, record = page.fetched(link.get_attribute("href"))
        assert status == 200
        assert "attachment" in name
        assert "column" in record


def test_a_wrong_answer_is_refused_beside_its_field(page: Page) -> None:
    begun(page)
    page.click("Ask the first question")
    page.at("/session/")
    page.see(".question")
    page.click("Answer", ".question")
    assert "Enter a value" in page.see(".question .problem").text
    page.click("Answer something else, or correct an answer")
    select = next(each for each in page.all("details select") if each.is_displayed())
    offered = [option.text for option in Select(select).options]
    Select(select).select_by_visible_text("bmi" if "bmi" in offered else "crp")
    page.see("details.card input[type=text]").send_keys("heavy")
    page.click("Answer", "details.card")
    page.wait(lambda: "heavy" in page.see("details.card .problem").text, "the sentence")


def test_costs_are_changed(page: Page) -> None:
    begun(page)
    page.click("Ask the first question")
    page.at("/session/")
    page.see(".question")
    name = asked(page).removeprefix("What is ").removesuffix("?")
    page.click("Change them")
    cost = field(page, name)
    cost.clear()
    cost.send_keys("500")
    page.click("Use these")
    page.wait(lambda: name not in asked(page), "another question")
    page.driver.refresh()
    page.see(".question")
    assert name not in asked(page)


def test_a_model_is_made_from_the_example_and_cancelled(page: Page) -> None:
    page.open("/ask")
    page.click("Use the example")
    page.see("main form select")
    page.click("Train it to ask")
    page.at("/job/")
    page.click("Cancel")
    page.read("Cancelled")
