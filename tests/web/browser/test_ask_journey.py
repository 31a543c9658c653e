"""The journey through questions and answers, in a browser."""

from pathlib import Path

from browsing import Page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
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
    # By keys: to the button, which waits meanwhile and so would lose the focus.
    ActionChains(page.driver).send_keys(Keys.TAB, Keys.SPACE).perform()
    page.wait(lambda: "heavy" in page.see("details.card .problem").text, "the sentence")
    marked_and_focused(page, "heavy")
    wrong = page.run("return document.activeElement")
    wrong.clear()
    wrong.send_keys("30")
    page.click("Answer", "details.card")
    page.wait(lambda: not page.all("details.card .problem"), "the end of the sentence")


def marked_and_focused(page: Page, value: str) -> None:
    """See that the field with a value has the focus, and that its sentence belongs to it."""
    focused = page.run("return document.activeElement")
    assert focused.get_attribute("value") == value
    assert focused.get_attribute("aria-invalid") == "true"
    sentence = page.run(
        "return document.getElementById(arguments[0].getAttribute('aria-describedby'))", focused
    )
    assert sentence.is_displayed()
    assert sentence.get_attribute("role") == "alert"
    assert page.run("return arguments[0].closest('label').nextElementSibling", focused) == sentence


def test_what_is_known_and_wrong_is_told_at_its_field(page: Page) -> None:
    begun(page)
    field(page, "crp").send_keys("high")
    page.click("Ask the first question")
    page.wait(lambda: "'high' is no value of 'crp'" in page.see(".problem").text, "the sentence")
    marked_and_focused(page, "high")
    field(page, "crp").clear()
    # A field that is folded away is unfolded: by the page, and where the browser refuses it.
    page.click("When is it enough?")
    field(page, "Enough when it surely lies on one side of").send_keys("here")
    page.click("When is it enough?")
    page.click("Ask the first question")
    page.wait(lambda: "Give a number" in page.see(".problem").text, "the sentence")
    marked_and_focused(page, "here")
    field(page, "Enough when it surely lies on one side of").clear()
    most = field(page, "Ask at most so many questions")
    most.send_keys("0")
    page.click("When is it enough?")
    page.click("Ask the first question")
    page.wait(most.is_displayed, "the field that is refused")
    most.clear()
    page.click("Ask the first question")
    page.at("/session/")


def test_a_question_that_tells_nothing_says_so(page: Page) -> None:
    told = page.made("parts/question.js", NOTHING)
    assert told["reason"].startswith("Of 2 questions none is expected to tell much about glucose")
    assert told["bar"] == 0


NOTHING = """
  const question = {name: "age", columns: ["age"], gain: 0.0004, error: 0.001, cost: 1,
    reason: "It tells most.", others: [{name: "sex", columns: ["sex"], gain: 0, cost: 1}]};
  const session = {id: "none", question, known: {}, open: ["age"], targets: [{name: "glucose"}],
    unit: "nats"};
  const columns = new Map([["age", {name: "age", input: "number", legal: "a number"}]]);
  box.append(part.questionCard(session, columns, 0.0004, () => {}));
  return {
    reason: box.querySelector("h2 + p").textContent,
    bar: box.querySelector(".room .bar").offsetWidth,
  };
"""


def test_shares_stay_on_one_line(page: Page) -> None:
    for width in (1280, 390):
        page.look(width=width)
        page.open("/ask")
        heights = page.made("parts/prediction.js", SHARES)
        assert len(heights) == 2
        assert max(heights) < 30


SHARES = """
  const target = part.predictionOf({name: "ill", classes: ["no", "yes"], span: null});
  const shares = [{value: "no", share: 0.999}, {value: "yes", share: 0.001}];
  const start = [{target: "ill", value: "no", shares}];
  target.update({start, history: []});
  box.append(target.node);
  return [...box.querySelectorAll(".share")].map((node) => node.offsetHeight);
"""


def test_a_model_and_a_new_one_stand_apart(page: Page) -> None:
    page.click("Use the example")
    page.at("/table/")
    page.open("/ask")
    # A quick model is what one begins with, and is not what decisions are made by.
    quick = next(each for each in page.all(".choice label") if "Quick look" in each.text)
    assert "about a minute" in quick.text
    assert "before a model is used for decisions" in quick.text.lower()
    models, card = page.all(".entries")[0].rect, page.see(".card").rect
    assert models["width"] == card["width"]
    assert card["y"] - (models["y"] + models["height"]) >= 16


def test_costs_are_changed(page: Page) -> None:
    begun(page)
    page.click("Ask the first question")
    page.at("/session/")
    page.see(".question")
    name = asked(page).removeprefix("What is ").removesuffix("?")
    page.click("Change them")
    fields = [each for each in page.all("main .wide label.field") if each.is_displayed()]
    assert len({each.rect["x"] for each in fields}) >= 3
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
    target = page.see("main form select")
    # Nobody has said yet what is to be found out.
    assert target.get_attribute("value") == ""
    assert "glucose" in target.text
    assert "admitted" not in target.text  # a date
    page.click("Train it to ask")
    assert page.run("return document.querySelector('main form').checkValidity()") is False
    Select(target).select_by_visible_text("glucose")
    page.click("Train it to ask")
    page.at("/job/")
    page.open("/ask")
    page.click("Learning to ask about glucose", ".entries")
    page.at("/job/")
    page.click("Cancel")
    page.read("Cancelled")


def test_another_table_is_given_where_one_is_asked(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,ill\n" + "\n".join(f"{20 + i},{i % 2}" for i in range(30)))
    page.open("/ask")
    page.upload(path)
    page.see("main form select")
    page.click("Another table")
    page.upload(path)
    page.wait(lambda: len(page.all(".card > label option")) == 2, "the second table")
    # Of one name they are told apart by when they came.
    assert all("just now" in each.text for each in page.all(".card > label option"))
    page.click("Look at its columns first")
    page.at("/table/")


def test_what_was_said_by_mistake_is_corrected(page: Page) -> None:
    begun(page)
    field(page, "age").send_keys("440")
    page.click("Ask the first question")
    page.at("/session/")
    page.see(".question")
    never = asked(page).removeprefix("What is ").removesuffix("?")
    page.click("Cannot be measured", ".question")
    page.wait(lambda: never not in asked(page), "the next question")
    said = corrected(page, never)
    assert "I do not know" not in said.text
    if radios := said.find_elements("css selector", ".levels label"):
        radios[0].click()
    elif selects := said.find_elements("css selector", "form select"):
        Select(selects[0]).select_by_index(1)
    else:
        said.find_element("css selector", "form input").send_keys(USUAL.get(never, "30"))
    page.click("Answer", "details.card")
    page.wait(lambda: "corrected" in page.see(".said").text, "the correction")
    struck = [each.text for each in page.all(".said s")]
    assert struck == [f"{never}: cannot be measured"]
    page.read("1 answer, 1 spent.")

    # What is doubted is part of a prediction that is final, too.
    page.click("Change them")
    most = field(page, "Ask at most so many questions")
    most.send_keys("1")
    page.click("Use these")
    assert "rests on a value that is doubted: age" in page.see(".stop").text

    # The value that it was stands in the field.
    form = corrected(page, "age")
    value = form.find_element("css selector", "form input")
    assert value.get_attribute("value") == "440"
    value.clear()
    value.send_keys("44")
    page.click("Answer", "details.card")
    page.read("known before, corrected")
    assert "doubted" not in page.see(".stop").text
    page.read("spent.")
    page.open("/ask")
    assert "age: 44" in page.see(".entries + .entries, section:nth-of-type(3) .entries").text


# What is doubted of no patient.
USUAL = {"blood pressure": "120", "temperature": "37", "crp": "4", "visits": "2"}


def corrected(page: Page, name: str) -> WebElement:
    """Choose a column that something was said of."""
    page.click("Answer something else, or correct an answer")
    card = page.see("details.card")
    Select(card.find_element("css selector", "select")).select_by_visible_text(name)
    return card


def test_levels_are_written_as_they_are(page: Page) -> None:
    said = page.made(
        "parts/prediction.js",
        "return part.inWords({value: 'niedrig', shares: [{value: 'niedrig', share: 0.82}]});",
    )
    assert said.startswith("“niedrig” in 82")
