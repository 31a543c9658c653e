"""A process that trains or evaluates: `python -m hhvaem.web.worker`.

It reads one job as a line of JSON from its standard input, and tells on its standard output, a line
of JSON at a time, how far it is and what came of it. It ends when the server does, however that
ends: nothing more comes from its standard input then.
"""

import contextlib
import json
import math
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import feather

from hhvaem.errors import InputError, TableWarning


class Teller:
    """Says how far a job is.

    Parameters
    ----------
    out
        Where to.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._begun: tuple[float, int] | None = None

    def tell(self, **facts: Any) -> None:
        """Write a line."""
        self._out.write(json.dumps(facts) + "\n")
        self._out.flush()

    def stage(self, name: str) -> None:
        """Say that something else begins."""
        self._begun = None
        self.tell(stage=name, step=None, steps=None, loss=None, acceptance=None, left=None)

    def step(
        self,
        name: str,
        step: int,
        steps: int,
        loss: float | None = None,
        acceptance: float | None = None,
    ) -> None:
        """Say how far something is."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = (now, step)
        begun, first = self._begun
        # As fast as so far; the first steps wait for a compiler and do not count.
        left = (now - begun) / (step - first) * (steps - step) if step > first else None
        self.tell(
            stage=name,
            step=step,
            steps=steps,
            loss=_number(loss),
            acceptance=_number(acceptance),
            left=left,
        )


def main() -> None:
    """Do one job."""
    # What libraries print must not stand between the lines that the server reads.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with contextlib.suppress(AttributeError):  # which Windows lacks
        os.nice(10)
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_server, daemon=True).start()
    teller = Teller(out)
    teller.stage("starting")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        try:
            work = _evaluated if order["task"] == "evaluate" else _fitted
            found: dict[str, Any] = {"done": work(order, teller)}
        except InputError as error:
            found = {"failed": str(error)}
        except MemoryError:
            found = {"failed": "There is not enough memory for this table; use a smaller one."}
        except Exception as error:
            # A sentence for whoever waits; what Python says goes to the log.
            traceback.print_exc()
            found = {
                "failed": f"Training ended with an error of its own ({type(error).__name__}); try "
                "another preset, or leave columns out."
            }
    notes = [str(each.message) for each in caught if issubclass(each.category, TableWarning)]
    teller.tell(**found, notes=list(dict.fromkeys(notes)))
    out.close()
    # Threads of compilers may be at work on what nobody needs any more.
    os._exit(0)


def _end_with_server() -> None:
    sys.stdin.read()
    os._exit(1)


def _table(order: dict[str, Any]) -> pa.Table:
    from hhvaem.cli.schema import ranked

    return ranked(feather.read_table(order["table"]), order["orders"])


def _fitted(order: dict[str, Any], teller: Teller) -> dict[str, Any]:
    from hhvaem.tasks import Task, task_of, values_of

    table = _table(order)
    targets = order["targets"]
    asked = None if order["kind_of_target"] is None else Task(order["kind_of_target"])
    chosen = task_of(table, targets, asked)
    known = table.drop_columns(targets)
    kinds = {name: kind for name, kind in order["kinds"].items() if name not in targets}
    model = _reporting(None if chosen is None else chosen.value, teller)(
        preset=order["preset"],
        kinds=kinds or None,
        max_steps=order["max_steps"],
        random_state=order["seed"],
    )
    if chosen is None:
        model.fit(known)
    else:
        model.fit(known, values_of(table, targets))
    draws = 0
    if chosen is None:
        draws = _filled(model, known, order, teller)
    else:
        _warmed(model, teller)
    # At the end: a model is finished with all that belongs to it.
    _keep(model, Path(order["model"]))
    return {
        "estimator": type(model).__mro__[1].__name__,
        "schema": json.loads(model.schema_.to_json()),
        "targets": _targets(model),
        "record": {} if model.fitted_ is None else model.fitted_.record,
        "draws": draws,
    }


def _keep(model: Any, path: Path) -> None:
    """Write a model to its folder, which may have gone while it was trained."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        model.save(path)
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or str(error).replace(str(path), path.name)
        raise InputError(
            f"The model cannot be kept in the folder of models: {reason.rstrip('.')}; mend that, "
            "and train again."
        ) from error


def _targets(model: Any) -> list[dict[str, Any]]:
    from hhvaem.web.models import targets_of

    return targets_of(model)


def _reporting(task: str | None, teller: Teller, *, comparing: bool = False) -> Any:
    """Give an estimator that tells how far it is."""
    from hhvaem import Classifier, Imputer, Regressor
    from hhvaem.presets import Plan
    from hhvaem.train import Progress

    cls: Any = {None: Imputer, "regression": Regressor, "classification": Classifier}[task]

    class Reporting(cls):
        @contextlib.contextmanager
        def _bar(self, plan: Plan, rows: int) -> Iterator[Any]:
            chooses = plan.chooses(rows)
            steps = plan.settings.steps * (2 if chooses else 1)

            def report(progress: Progress) -> None:
                name = "sampling" if progress.stage == 3 else "training"
                if chooses and progress.step <= plan.settings.steps:
                    name = "choosing"
                # After the last step there is still something to compile.
                name = "finishing" if progress.step >= steps else name
                teller.step(name, progress.step, steps, progress.loss, progress.acceptance)

            yield report
            if comparing:
                teller.stage("comparing")

    return Reporting


def _filled(model: Any, table: pa.Table, order: dict[str, Any], teller: Teller) -> int:
    """Fill a table, and draw its holes; give how often."""
    from hhvaem.parts import rows_of_a_part

    cells = table.num_rows * table.num_columns
    draws = max(1, min(order["kept_draws"], order["kept_cells"] // cells))
    rows = rows_of_a_part(None, (draws + 1) * table.num_columns)
    full, drawn = [], []
    teller.stage("filling")
    for first in range(0, table.num_rows, rows):
        part = table.slice(first, rows)
        full.append(model.transform(part))
        drawn.append(model.sample(part, draws, offset=first))
        teller.step("filling", min(first + rows, table.num_rows), table.num_rows)
    folder = Path(order["folder"])
    _write(full, folder / "filled.feather")
    for i in range(draws):
        _write([part[i] for part in drawn], folder / f"draw{i}.feather")
    return draws


def _write(parts: list[pa.Table], path: Path) -> None:
    whole = pa.concat_tables(parts, promote_options="default").unify_dictionaries()
    feather.write_feather(
        whole.combine_chunks(), str(path), compression="uncompressed", chunksize=10**9
    )


def _warmed(model: Any, teller: Teller) -> None:
    """Compile what questions need, so that the server finds it ready."""
    from hhvaem import Session

    teller.stage("finishing")
    session = Session(model)
    question = session.ask()
    if question is not None:
        explained = session.explain(question.columns[0])
        session.tell(explained.column, explained.answers[0][0])
        session.ask()


def _evaluated(order: dict[str, Any], teller: Teller) -> dict[str, Any]:
    imputer = _reporting(None, teller, comparing=True)(
        preset=order["preset"],
        kinds=order["kinds"] or None,
        max_steps=order["max_steps"],
        random_state=order["seed"],
    )
    found = imputer.evaluate(_table(order), how=order["how"], against=order["against"])
    folder = Path(order["folder"])
    report = {
        "hidden": found.hidden_in_words,
        "words": list(found.words),
        "left_out": found.left_out,
        "facts": found.facts(),
    }
    (folder / "report.json").write_text(json.dumps(report))
    (folder / "report.html").write_text(found.to_html(), encoding="utf-8")
    return {}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


if __name__ == "__main__":
    main()
