"""Sessions: ask, answer, take back, and the record."""

import re
import time
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import Response

from hhvaem.delimited import MARK
from hhvaem.web.asking import Asking
from hhvaem.web.bodies import AnswerBody, SessionBody, SettingsBody
from hhvaem.web.downloads import FORMATS
from hhvaem.web.house import House, In, Owner
from hhvaem.web.identity import token
from hhvaem.web.plain import Json

router = APIRouter(prefix="/api/sessions", tags=["sessions"])
# Letters of a record's name that are of its targets.
LONGEST = 60


@router.post("", summary="Begin to ask about a case", status_code=201)
async def begin(body: SessionBody, house: In, owner: Owner) -> Json:
    """Begin a session with what is known, costs and rules, and give its first question."""
    model = house.models.get(owner, body.model)
    wish = {**body.model_dump(), "rules": body.rules.model_dump()}

    def work() -> Asking:
        return Asking(token(), owner, model.id, house.models.estimator(model), wish)

    with house.sessions.room(owner):
        asking = await house.compute.soon(work)
        house.models.get(owner, model.id)  # which may have been removed meanwhile
        house.sessions.add(asking)
    return Json(asking.told(), 201)


@router.get("/{session}", summary="A session")
async def show(session: str, house: In, owner: Owner) -> Json:
    """Give the question, the prediction, and all that was said."""
    return await _after(house, owner, session, lambda asking: None)


@router.delete("/{session}", summary="End a session", status_code=204)
async def remove(session: str, house: In, owner: Owner) -> Response:
    """Forget a session."""
    house.sessions.remove(house.sessions.get(owner, session).asking.id)
    return Response(status_code=204)


@router.post("/{session}/answers", summary="Answer")
async def answer(session: str, body: AnswerBody, house: In, owner: Owner) -> Json:
    """Take a value, `unknown` (set aside for now) or `unmeasurable` (never asked again)."""
    house.sessions.check_answers(house.sessions.get(owner, session))
    said = (body.column, body.answer, body.value)
    return await _after(house, owner, session, lambda asking: asking.answer(*said))


@router.post("/{session}/again", summary="Ask again for what was set aside")
async def again(session: str, house: In, owner: Owner) -> Json:
    """Let what was unknown be asked for again."""
    return await _after(house, owner, session, Asking.again)


@router.post("/{session}/undo", summary="Take the last answer back")
async def undo(session: str, house: In, owner: Owner) -> Json:
    """Go back to before the last answer."""
    return await _after(house, owner, session, Asking.undo)


@router.put("/{session}/settings", summary="Change costs or rules")
async def settings(session: str, body: SettingsBody, house: In, owner: Owner) -> Json:
    """Take other costs or rules; what has been paid stays paid."""
    rules = None if body.rules is None else body.rules.model_dump()
    return await _after(house, owner, session, lambda asking: asking.set(body.costs, rules))


@router.get("/{session}/explain", summary="How the prediction would move")
async def explain(
    session: str, house: In, owner: Owner, column: Annotated[str | None, Query()] = None
) -> Json:
    """Say what would be predicted after some answers of a column, by default the one asked for."""
    return Json(await _asked(house, owner, session, lambda asking: asking.explained(column)))


@router.get("/{session}/record.json", summary="The record, to go on from")
async def record(session: str, house: In, owner: Owner) -> Response:
    """Give all of a session; `hhvaem ask MODEL --session FILE` goes on from it."""
    return await _asked(
        house, owner, session, lambda asking: _file(asking, asking.record().encode(), "json")
    )


@router.get("/{session}/record.csv", summary="The record, a line for each answer")
async def record_table(session: str, house: In, owner: Owner) -> Response:
    """Give the answers with their gains, costs and predictions."""
    return await _asked(
        house,
        owner,
        session,
        lambda asking: _file(asking, MARK + asking.record_table().encode(), "csv"),
    )


async def _after(house: House, owner: str, session: str, work: Callable[[Asking], None]) -> Json:
    """Do something with a session, and show it afterwards."""

    def both(asking: Asking) -> dict[str, Any]:
        work(asking)
        return asking.told()

    return Json(await _asked(house, owner, session, both))


async def _asked(house: House, owner: str, session: str, work: Callable[[Asking], Any]) -> Any:
    live = house.sessions.get(owner, session)
    async with live.lock:
        return await house.compute.soon(work, live.asking)


def _file(asking: Asking, content: bytes, suffix: str) -> Response:
    """Give a file that is named after its targets and the time at which it was begun."""
    targets = "-".join(each["name"] for each in asking.targets)[:LONGEST]
    begun = time.strftime("%Y-%m-%d-%H-%M-%S", time.localtime(asking.created))
    name = re.sub(r"[^\w.-]+", "-", f"{targets}-{begun}.{suffix}")
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(name)}"}
    kind = {"json": "application/json", "csv": FORMATS["csv"]}[suffix]
    return Response(content, media_type=kind, headers=headers)
