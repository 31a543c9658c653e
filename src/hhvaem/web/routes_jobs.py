"""Jobs: how far they are, and the report."""

import json

from fastapi import APIRouter
from starlette.responses import FileResponse, StreamingResponse

from hhvaem.web.house import In, Owner
from hhvaem.web.jobs import Job
from hhvaem.web.plain import Json, clean
from hhvaem.web.refusals import RefusedError

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

NO_REPORT = "The report is not there; wait for its job, or ask again."


@router.get("/{job}", summary="How far a job is")
def show(job: str, house: In, owner: Owner) -> Json:
    """Give the state of a job."""
    return Json(house.jobs.get(owner, job).told())


@router.get("/{job}/events", summary="What happens to a job, as it happens")
def events(job: str, house: In, owner: Owner) -> StreamingResponse:
    """Send server-sent events: `job` whenever something changes, and `end` at the end."""
    found = house.jobs.get(owner, job)
    return StreamingResponse(house.jobs.events(found), media_type="text/event-stream")


@router.delete("/{job}", summary="Cancel a job")
async def cancel(job: str, house: In, owner: Owner) -> Json:
    """End a job; one that has ended stays as it is."""
    found = house.jobs.get(owner, job)
    house.jobs.cancel(found)
    return Json(found.told())


@router.get("/{job}/report", summary="The trust report")
def report(job: str, house: In, owner: Owner) -> Json:
    """Give what hiding cells has shown."""
    from hhvaem.trust_page import MEANINGS
    from hhvaem.verdicts import CALLED

    found = house.jobs.get(owner, job)
    _check(found)
    try:
        content = clean(json.loads((found.folder / "report.json").read_bytes()))
    except FileNotFoundError as error:  # its table was removed meanwhile
        raise RefusedError(409, NO_REPORT) from error
    for method in content["facts"]["methods"]:
        method["called"] = CALLED[method["name"]]
    return Json({**content, "meanings": MEANINGS})


@router.get("/{job}/report.html", summary="The trust report as a page to keep")
def page(job: str, house: In, owner: Owner) -> FileResponse:
    """Give the page that `hhvaem evaluate` writes."""
    found = house.jobs.get(owner, job)
    _check(found)
    name = f"{found.table_name.partition('.')[0]}-trust.html"
    return FileResponse(found.folder / "report.html", media_type="text/html", filename=name)


def _check(job: Job) -> None:
    if job.order["task"] != "evaluate":
        raise RefusedError(400, "This job makes no report; ask for one with the task 'evaluate'.")
    if job.state != "done" or not (job.folder / "report.json").exists():
        raise RefusedError(409, NO_REPORT)
