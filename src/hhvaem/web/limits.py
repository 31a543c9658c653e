"""How much of everything the service takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much of everything the service takes; beyond it, a request is refused with a sentence.

    Parameters
    ----------
    upload_bytes, unpacked_bytes
        Of a file as it is sent, and of what it unpacks to.
    waiting_seconds
        For the next block of a file that is being sent.
    reading_bytes, reading_seconds
        Memory and time of the process that reads a file.
    rows, columns, cells
        Of a table.
    tables, sessions, jobs
        Of one owner; jobs that run or wait.
    all_tables, all_sessions, all_jobs
        Of all owners together.
    stored_bytes
        Of all tables and what is made of them.
    body_bytes, request_rows, request_cells
        Of a JSON request.
    draws
        Of a request for draws.
    kept_draws, kept_cells
        Draws that are kept of a filled table, fewer where they would have more cells than this.
    answers
        Of a session, with all corrections.
    page_rows, bands
        Of one look at a table, and of its map of missingness.
    idle_seconds
        After which tables and sessions of others make room for new ones.
    """

    upload_bytes: int = 256 * 2**20
    unpacked_bytes: int = 512 * 2**20
    waiting_seconds: float = 30.0
    reading_bytes: int = 4 * 2**30
    reading_seconds: int = 120
    rows: int = 200_000
    columns: int = 500
    cells: int = 5_000_000
    tables: int = 10
    sessions: int = 50
    jobs: int = 4
    all_tables: int = 100
    all_sessions: int = 500
    all_jobs: int = 16
    stored_bytes: int = 8 * 2**30
    body_bytes: int = 8 * 2**20
    request_rows: int = 1_000
    request_cells: int = 200_000
    draws: int = 100
    kept_draws: int = 20
    kept_cells: int = 10_000_000
    answers: int = 2_000
    page_rows: int = 200
    bands: int = 200
    idle_seconds: float = 12 * 3600.0
