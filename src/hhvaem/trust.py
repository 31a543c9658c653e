"""`Evaluation`: what hiding cells of a table has shown, as a text, as JSON and as a page."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import hhvaem
from hhvaem.assessment import Assessment, Outcome
from hhvaem.containers import some
from hhvaem.hiding import IN_WORDS
from hhvaem.verdicts import Difference, Verdict, compared, in_words, verdicts

# Bars of the histogram of places; of right laws all are about as high.
BARS = 10


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What `Imputer.evaluate` found.

    Parameters
    ----------
    found
        All scores.

    Attributes
    ----------
    verdicts
        Of each column that had hidden cells.
    words
        What it comes to, in a few sentences.
    """

    found: Assessment

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdicts(self.found))

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(in_words(self.found))

    @cached_property
    def differences(self) -> dict[str, dict[str, Difference]]:
        return compared(self.found)

    def __repr__(self) -> str:
        """Show the verdicts, a line for each column."""
        lines = [f"{each.column}: {each.called}. {each.sentence}" for each in self.verdicts]
        return "\n".join([self.hidden_in_words, *self.words, "", *lines])

    def _repr_html_(self) -> str:
        from hhvaem.trust_page import verdict_table, words

        return words(self) + verdict_table(self)

    @property
    def hidden_in_words(self) -> str:
        """What was hidden, and how."""
        cells, columns = int(self.found.hidden.sum()), int(self.found.hidden.any(0).sum())
        return (
            f"{cells:,} known cells of {columns} columns were hidden, {IN_WORDS[self.found.how]}."
        )

    @property
    def left_out(self) -> str:
        """The columns of which nothing was hidden; empty where there is none."""
        columns = enumerate(self.found.schema.modelled)
        names = [column.name for j, column in columns if not self.found.hidden[:, j].any()]
        return some(names)

    def facts(self) -> dict[str, Any]:
        """Give everything as numbers and texts."""
        found = self.found
        return {
            "version": hhvaem.__version__,
            "rows": found.rows,
            "columns": len(found.schema.modelled),
            "how": found.how,
            "share": float(found.hidden.sum() / max(found.known, 1)),
            "hidden_cells": int(found.hidden.sum()),
            "seed": found.seed,
            "words": list(self.words),
            "methods": [self._method(outcome) for outcome in found.outcomes],
            "verdicts": [self._told(each) for each in self.verdicts],
            "own_holes": {
                name: {"score": _number(each.score), "by_column": each.by_column}
                for name, each in found.own_holes.items()
            },
        }

    def to_json(self) -> str:
        """Write `facts` as JSON."""
        return json.dumps(self.facts(), indent=1, allow_nan=False)

    def to_html(self) -> str:
        """Write a page about it: one file, with its figures in it."""
        from hhvaem.trust_page import page  # which needs matplotlib

        return page(self)

    def _method(self, outcome: Outcome) -> dict[str, Any]:
        logs = outcome.log_scores
        facts: dict[str, Any] = {
            "name": outcome.name,
            "seconds": round(outcome.seconds, 3),
            "scores": outcome.report.table
            | ({"log_score": float(np.mean(list(logs.values())))} if logs else {}),
            "by_kind": outcome.report.by_kind,
            "by_column": {
                name: scores | ({"log_score": logs[name]} if logs else {})
                for name, scores in outcome.report.by_column.items()
            },
        }
        for what, gap in self.differences.get(outcome.name, {}).items():
            facts[f"more_{what}_than_ours"] = {"value": gap.value, "standard_error": gap.error}
        return facts

    def _told(self, each: Verdict) -> dict[str, Any]:
        places = self.found.calibration[each.column].places
        return {
            "column": each.column,
            "kind": each.kind,
            "cells": each.cells,
            "verdict": each.word,
            "called": each.called,
            "sentence": each.sentence,
            "score": each.score,
            "score_of_mean": _number(each.mean_score),
            "coverage": each.coverage,
            "expected": each.expected,
            "better": None if each.better is None else each.better[0],
        } | ({} if places is None else {"places": histogram(places)})


def histogram(places: np.ndarray) -> list[int]:
    """Count places in parts of the same width."""
    counts, _ = np.histogram(places, bins=BARS, range=(0.0, 1.0))
    return [int(count) for count in counts]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
