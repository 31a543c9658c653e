"""How quickly the page answers many at once, and whether its memory stays flat.

A server of its own is started on loopback with a model of the embedded example. First so many
people are asked at the same time, each in a session of his own; then a mix of questions, rows to
fill, uploads and looks at tables runs for some time. Everything is bounded, in count and in time.

    python benchmarks/serving.py --minutes 10    # results/serving.json, and docs/serve.md
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pyarrow as pa
from documents import write_block

from hhvaem import Regressor
from hhvaem.example import clinic
from hhvaem.paper.records import write_json

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "serving.json", ROOT / "docs" / "serve.md"
TARGET = "glucose"
# Requests of a mixed load that each of its users makes at most.
MOST = 20_000
SECONDS = 600.0


def main() -> None:
    """Measure, and write what was found."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "glucose.hhvaem"
        _fit(options.preset).save(model)
        with _server(model, Path(folder)) as (address, process):
            _warm(address)
            found = {
                "cores": os.cpu_count(),
                "preset": options.preset,
                "ask": _ask(address, options.users, options.answers),
                "mixed": _mixed(address, process, options.users, options.minutes),
            }
    write_json(found, options.out)
    if options.out == RESULTS:
        write_block(PAGE, "serving", _block(found))
    print(json.dumps(found, indent=1))


def _block(found: dict[str, Any]) -> str:
    """Lay out what was measured."""
    rows = [
        f"| {name} | {told['p50_seconds']:.2f} | {told['p95_seconds']:.2f} "
        f"| {told['most_seconds']:.2f} | {told['answers']} | {sum(told['errors'].values())} |"
        for name, told in (
            (f"{found['ask']['users']} people who are asked at once", found["ask"]),
            (f"questions in {found['mixed']['minutes']:g} minutes of mixed load", found["mixed"]),
        )
    ]
    memory = found["mixed"]["memory_mb"]
    return "\n".join(
        [
            "| seconds until the next question | middle | 95 of 100 | most | answers | errors |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            f"On {found['cores']} cores, with the {found['preset']} preset. The server's memory in "
            f"the mixed load: {memory['first_third']:.0f} MB in the first third of the time, "
            f"{memory['last_third']:.0f} MB in the last.",
        ]
    )


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--answers", type=int, default=10, help="of each user")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the mixed load")
    parser.add_argument("--preset", choices=("default", "fast"), default="default")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _fit(preset: str) -> Regressor:
    table = clinic()
    known, target = table.drop_columns([TARGET]), table[TARGET]
    # As many members and units as the preset has; what was learned costs no time.
    return Regressor(preset=preset, max_steps=200, random_state=0).fit(known, target)


@contextmanager
def _server(model: Path, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = "from hhvaem.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "serve", str(model), "--no-open", "--port", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0], process
    finally:
        process.terminate()
        process.wait(30)


def _warm(address: str) -> None:
    """Wait until all programs are compiled."""
    with httpx.Client(base_url=address, timeout=300) as user:
        _case(user, 2, [], Counter(), random.Random(0))
        _rows(user, random.Random(0))


def _ask(address: str, users: int, answers: int) -> dict[str, Any]:
    """Let all users answer questions at the same time."""
    times: list[float] = []
    errors: Counter[str] = Counter()

    def one(number: int) -> None:
        with httpx.Client(base_url=address, timeout=60) as user:
            _case(user, answers, times, errors, random.Random(number))

    start = time.perf_counter()
    _together(one, users)
    return {
        "users": users,
        "answers": len(times),
        "seconds": round(time.perf_counter() - start, 2),
        **_quantiles(times),
        "errors": dict(errors),
    }


def _case(
    user: httpx.Client,
    answers: int,
    times: list[float],
    errors: Counter[str],
    chance: random.Random,
) -> None:
    """Answer questions about one case, each with what is thinkable."""
    session = _checked(user.post("/api/sessions", json={"model": "served"}), errors)
    columns = {each["name"]: each for each in user.get("/api/models/served").json()["columns"]}
    for _ in range(answers):
        if session is None or session["question"] is None:
            break
        name = session["question"]["columns"][0]
        body = {"column": name, "answer": "value", "value": _answer(columns[name], chance)}
        start = time.perf_counter()
        answer = user.post(f"/api/sessions/{session['id']}/answers", json=body)
        times.append(time.perf_counter() - start)
        session = _checked(answer, errors)
    if session is not None:
        _checked(user.delete(f"/api/sessions/{session['id']}"), errors)


def _answer(column: dict[str, Any], chance: random.Random) -> Any:
    if column["levels"]:
        return chance.choice(column["levels"])
    if column["input"] == "date":
        return f"2024-0{chance.randint(1, 9)}-01"
    return chance.randint(20, 40)


def _mixed(
    address: str, process: subprocess.Popen[str], users: int, minutes: float
) -> dict[str, Any]:
    """Let users do this and that for some minutes, and look at the server's memory."""
    end = time.monotonic() + min(minutes * 60, SECONDS)
    times: list[float] = []
    kinds: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    memory: list[float] = []

    def one(number: int) -> None:
        chance = random.Random(number)
        with httpx.Client(base_url=address, timeout=120) as user:
            for _ in range(MOST):
                if time.monotonic() > end:
                    return
                kind = chance.choices(("ask", "fill", "table"), (6, 3, 1))[0]
                kinds[kind] += 1
                if kind == "ask":
                    _case(user, 3, times, errors, chance)
                elif kind == "fill":
                    _checked(_rows(user, chance), errors)
                else:
                    _table(user, errors)

    def look() -> None:
        while time.monotonic() < end:
            memory.append(_megabytes(process.pid))
            time.sleep(1)

    watching = threading.Thread(target=look)
    watching.start()
    _together(one, users)
    watching.join()
    third = max(len(memory) // 3, 1)
    return {
        "minutes": round(min(minutes * 60, SECONDS) / 60, 2),
        "done": dict(kinds),
        "answers": len(times),
        **_quantiles(times),
        "errors": dict(errors),
        "memory_mb": {
            "first_third": round(float(np.mean(memory[:third])), 1),
            "last_third": round(float(np.mean(memory[-third:])), 1),
            "most": round(max(memory), 1),
        },
    }


def _rows(user: httpx.Client, chance: random.Random) -> httpx.Response:
    rows = [{"age": chance.randint(20, 90)} for _ in range(chance.randint(1, 20))]
    return user.post("/api/models/served/predict", json={"rows": rows})


def _table(user: httpx.Client, errors: Counter[str]) -> None:
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, clinic(rows=200).schema) as file:
        file.write_table(clinic(rows=200))
    content = out.getvalue().to_pybytes()
    table = _checked(user.post("/api/tables?name=clinic.feather", content=content), errors)
    if table is None:
        return
    for what in ("rows", "map", "column?column=4"):
        _checked(user.get(f"/api/tables/{table['id']}/{what}"), errors)
    _checked(user.delete(f"/api/tables/{table['id']}"), errors)


def _checked(answer: httpx.Response, errors: Counter[str]) -> Any:
    if answer.status_code >= 400:
        errors[f"{answer.status_code} {answer.text[:100]}"] += 1
        return None
    return answer.json() if answer.content else None


def _together(work: Callable[[int], None], users: int) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _quantiles(times: list[float]) -> dict[str, float]:
    p50, p95, most = np.quantile(times, (0.5, 0.95, 1.0)) if times else (0.0, 0.0, 0.0)
    return {
        "p50_seconds": round(float(p50), 3),
        "p95_seconds": round(float(p95), 3),
        "most_seconds": round(float(most), 3),
    }


def _megabytes(process: int) -> float:
    """Give the memory that a process has for itself."""
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
