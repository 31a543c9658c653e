"""The page of benchmarks/peers.py, and its figure."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from documents import write_block
from peer_environments import IMPUTERS, OURS, RIVALS, ROOT, TIMEOUT
from peer_scores import HOW, IN_WORDS, NEW_ROWS, Record
from peer_tables import ROWS, UGLY
from scipy.stats import rankdata

PAGE, FIGURE = ROOT / "docs" / "results" / "peers.md", ROOT / "docs" / "figures" / "peers.png"

Results = dict[str, list[Record]]


LESS_IS_BETTER = {
    "score": "point score",
    "crps": "CRPS",
    "energy_distance": "energy distance",
}
ROLES = ("verdict", "development")
# What intervals of 90 % are wanted to hold.
WANTED = (0.85, 0.95)
Cell = tuple[str, str]


class Rank(NamedTuple):
    """A mean rank, its standard error over tables and protocols, and how many these are."""

    mean: float
    error: float
    pairs: int

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" ± {self.error:.1f}"
        return f"{self.mean:.1f}{error} ({self.pairs})"


def compared(records: Sequence[Record], score: str) -> list[str]:
    """Give the imputers that have records, of CRPS those that draw."""
    there = {record["imputer"] for record in records}
    return [
        name for name in IMPUTERS if name in there and (score != "crps" or IMPUTERS[name].draws)
    ]


def ranks(
    records: Sequence[Record], score: str, role: str, among: Sequence[str] = tuple(IMPUTERS)
) -> dict[str, Rank]:
    """Rank imputers by a score on every table and protocol of a role, and average.

    The best has rank 1; those that fail or run out of time share the last ranks. A seed counts
    where all have run that can do the protocol at all, and a table and protocol where a seed does.
    """
    names = [name for name in compared(picked(records, role=role), score) if name in among]
    values: dict[Cell, dict[int, dict[str, float]]] = {}
    for record in records:
        if record["role"] == role and record["imputer"] in names:
            seeds = values.setdefault((record["table"], record["protocol"]), {})
            value = np.inf if record[score] is None else record[score]
            seeds.setdefault(record["seed"], {})[record["imputer"]] = value
    found: dict[str, list[float]] = {name: [] for name in names}
    for (_, protocol), seeds in values.items():
        able = [name for name in names if protocol != NEW_ROWS or IMPUTERS[name].new_rows]
        each = [
            rankdata([of[name] for name in able])
            for of in seeds.values()
            # Where nobody has a score there is nothing to rank: no numbers, no CRPS.
            if set(able) <= set(of) and np.isfinite(list(of.values())).any()
        ]
        for name, mean in zip(able, np.mean(each, axis=0) if each else (), strict=False):
            found[name].append(float(mean))
    return {
        name: Rank(float(np.mean(of)), standard_error(of), len(of))
        for name, of in found.items()
        if of
    }


def standard_error(values: Sequence[float]) -> float:
    """Give the standard error of a mean; NaN for fewer than two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Write a mean with its standard error, where it has one."""
    if not values:
        return ""
    error = standard_error(values)
    return f"{np.mean(values):.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table."""
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def of_role(records: Sequence[Record], role: str) -> list[str]:
    """Give the tables of a role, the smallest first."""
    sizes = {r["table"]: r["rows"] * r["columns"] for r in records if r["role"] == role}
    return sorted(sizes, key=lambda name: (sizes[name], name))


def picked(records: Sequence[Record], **wanted: Any) -> list[Record]:
    return [r for r in records if all(r[name] == value for name, value in wanted.items())]


def often(records: Sequence[Record]) -> list[str]:
    """Give the imputers that have run on at least half of the pairs on which ours has."""
    cells = {(r["table"], r["protocol"]) for r in picked(records, imputer=OURS)}

    def has_run(name: str) -> bool:
        own = {(r["table"], r["protocol"]) for r in picked(records, imputer=name)}
        can = {c for c in cells if c[1] != NEW_ROWS or IMPUTERS[name].new_rows}
        return len(can & own) * 2 >= len(can)

    return [name for name in IMPUTERS if has_run(name)]


def rank_block(records: Sequence[Record]) -> str:
    parts = []
    among = often(records)
    for role in ROLES:
        found = {score: ranks(records, score, role, among) for score in LESS_IS_BETTER}
        names = [name for name in among if any(name in each for each in found.values())]
        names.sort(key=lambda name: found["score"][name].mean)
        rows = []
        for name in names:
            row = [f"**{name}**" if name == OURS else name]
            for each in found.values():
                rank = each.get(name)
                row.append(str(rank) if rank else "")
            rows.append(row)
        if rows:
            head = ["imputer", *LESS_IS_BETTER.values()]
            parts.append(f"**{role.capitalize()}**\n\n{lines(head, rows)}")
    rare = [name for name in compared(records, "score") if name not in among]
    if rare:
        parts.append(f"Not ranked, as they have run on too few: {', '.join(rare)}.")
    return "\n\n".join(parts)


def duel_block(records: Sequence[Record]) -> str:
    """Compare ours with each other method on all that both have run, seed by seed."""
    parts = []
    for role in ROLES:
        own = picked(records, role=role)
        rows = []
        for name in compared(own, "score"):
            cells = [duel(own, name, score) for score in LESS_IS_BETTER] if name != OURS else []
            if any(cells):
                rows.append([name, *cells])
        if rows:
            head = ["beside", *LESS_IS_BETTER.values()]
            parts.append(f"**{role.capitalize()}**\n\n{lines(head, rows)}")
    return "\n\n".join(parts)


def duel(records: Sequence[Record], name: str, score: str) -> str:
    """Say on how many tables and protocols ours is better, and the middle of the ratios."""
    found: dict[Cell, dict[str, dict[int, float]]] = {}
    for r in records:
        if r["imputer"] in (OURS, name) and r[score] is not None:
            cell = found.setdefault((r["table"], r["protocol"]), {OURS: {}, name: {}})
            cell[r["imputer"]][r["seed"]] = r[score]
    ratios = []
    for of in found.values():
        both = sorted(set(of[OURS]) & set(of[name]))
        if both:
            ours, theirs = (np.mean([of[each][seed] for seed in both]) for each in (OURS, name))
            ratios.append(ours / theirs)
    if not ratios:
        return ""
    better = sum(ratio < 1 for ratio in ratios)
    return f"better on {better} of {len(ratios)}, {np.median(ratios):.2f} of theirs"


def score_block(records: Sequence[Record]) -> str:
    parts = []
    for protocol, (_, share) in HOW.items():
        for score, title in LESS_IS_BETTER.items():
            names = compared(records, score)
            if protocol == NEW_ROWS:
                names = [name for name in names if IMPUTERS[name].new_rows]
            rows = [
                [
                    f"{table} ({role[0]})",
                    *_best_bold([_cell(records, table, protocol, name, score) for name in names]),
                ]
                for role in ROLES
                for table in of_role(records, role)
                if picked(records, table=table, protocol=protocol)
            ]
            if rows:
                head = f"**{protocol}, {title}** ({share:.0%} of {IN_WORDS[protocol]})"
                parts.append(f"{head}\n\n{lines(['table', *names], rows)}")
    return "\n\n".join(parts)


def _cell(
    records: Sequence[Record], table: str, protocol: str, name: str, score: str
) -> tuple[float, str]:
    """Give the mean over seeds, and how it is written."""
    own = picked(records, table=table, protocol=protocol, imputer=name)
    values = [r[score] for r in own if r[score] is not None]
    lost = len(own) - len(values)
    if values:
        return float(np.mean(values)), spread(values) + (f", {lost} failed" if lost else "")
    if not own:
        return np.inf, ""
    if any(r["timeout"] for r in own):
        return np.inf, "time-out"
    return np.inf, "failed" if any(r["score"] is None for r in own) else "none"


def _best_bold(cells: Sequence[tuple[float, str]]) -> list[str]:
    # Who is alone is not the best of anything.
    if sum(value < np.inf for value, _ in cells) < 2:
        return [text for _, text in cells]
    best = min(value for value, _ in cells)
    return [f"**{text}**" if value == best else text for value, text in cells]


def against_block(records: Sequence[Record]) -> str:
    """Say where ours is worse than the one to beat, by more than two standard errors."""
    parts = []
    for score, rival in RIVALS.items():
        worse, count = [], 0
        for role in ROLES:
            for table in of_role(records, role):
                for protocol in HOW:
                    found: dict[str, dict[int, float]] = {OURS: {}, rival: {}}
                    for r in picked(records, table=table, protocol=protocol):
                        if r["imputer"] in found and r[score] is not None:
                            found[r["imputer"]][r["seed"]] = r[score]
                    both = sorted(set(found[OURS]) & set(found[rival]))
                    if len(both) < 2:
                        continue
                    count += 1
                    more = [found[OURS][seed] - found[rival][seed] for seed in both]
                    if np.mean(more) > 2 * standard_error(more):
                        worse.append([table, role, protocol, spread(more)])
        title = f"**{rival}, {LESS_IS_BETTER[score]}**"
        if not count:
            parts.append(f"{title}: no table has been run by both with two seeds or more.")
        elif not worse:
            parts.append(f"{title}: worse on none of {count} tables and protocols.")
        else:
            head = ["table", "role", "protocol", "worse by"]
            parts.append(
                f"{title}: worse on {len(worse)} of {count} tables and protocols.\n\n"
                + lines(head, worse)
            )
    return "\n\n".join(parts)


def coverage_block(records: Sequence[Record]) -> str:
    names = compared(records, "crps")
    rows = []
    for protocol in HOW:
        row = [protocol]
        for name in names:
            by_table: dict[str, list[float]] = {}
            for r in picked(records, protocol=protocol, imputer=name):
                if r["coverage90"] is not None:
                    by_table.setdefault(r["table"], []).append(r["coverage90"])
            means = [float(np.mean(of)) for of in by_table.values()]
            text = f"{np.mean(means):.2f} ({min(means):.2f} to {max(means):.2f})" if means else ""
            row.append(text)
        rows.append(row)
    return "\n\n".join([lines(["protocol", *names], rows), _off(records)])


def _off(records: Sequence[Record]) -> str:
    """Name the tables on which ours is outside of what is wanted where cells hide by chance."""
    said = []
    for protocol, (how, _) in HOW.items():
        for table in sorted({r["table"] for r in picked(records, imputer=OURS)}):
            own = picked(records, table=table, protocol=protocol, imputer=OURS)
            found = [r["coverage90"] for r in own if r["coverage90"] is not None]
            if how == "mcar" and found and not WANTED[0] <= np.mean(found) <= WANTED[1]:
                said.append(f"{table}, {protocol} ({np.mean(found):.3f})")
    wanted = f"{WANTED[0]:.0%} to {WANTED[1]:.0%}"
    if not said:
        return f"Where cells are hidden by chance, ours is within {wanted} on every table."
    return f"Where cells are hidden by chance, ours is outside {wanted} on {'; '.join(said)}."


def cost_block(records: Sequence[Record]) -> str:
    parts = []
    for what, title in {"seconds": "Seconds", "peak_mb": "Peak memory, MB"}.items():
        measured = [
            r
            for r in picked(records, protocol="in-sample")
            if r[what] is not None or (r["timeout"] and what == "seconds")
        ]
        names = compared(measured, "score")
        rows = []
        for role in ROLES:
            for table in of_role(records, role):
                row = []
                for name in names:
                    own = picked(records, table=table, protocol="in-sample", imputer=name)
                    values = [r[what] for r in own if r[what] is not None]
                    late = any(r["timeout"] for r in own)
                    text = f"{np.mean(values):,.{0 if what == 'peak_mb' else 1}f}" if values else ""
                    row.append(f"over {TIMEOUT:,}" if late and what == "seconds" else text)
                if any(row):
                    size = picked(records, table=table)[0]
                    rows.append([f"{table}, {size['rows']:,} x {size['columns']}", *row])
        parts.append(f"**{title}, in-sample**\n\n{lines(['table', *names], rows)}")
    devices = sorted({r["device"] for r in picked(records, imputer=OURS) if r["device"]})
    ran = f"{OURS} ran on {', '.join(devices)}; all others on a CPU." if devices else ""
    return "\n\n".join([*parts, *([ran] if ran else [])])


def ugly_block(records: Sequence[Record]) -> str:
    own = picked(records, role="ugly")
    names = compared(own, "score")
    rows = []
    for how in UGLY:
        row = [how]
        for name in names:
            of = picked(own, protocol=f"ugly:{how}", imputer=name)
            values = [r["score"] for r in of if r["score"] is not None]
            said = [spread(values)] if values else []
            said += ["time-out"] if any(r["timeout"] for r in of) else []
            said += ["crash"] if any(r["failure"] for r in of) else []
            for what, word in {"not_finite": "not finite", "illegal": "illegal"}.items():
                # Those that crash leave nothing to count.
                share = [r[what] / r["holes"] for r in of if r.get("holes")]
                if any(share):
                    said.append(f"{np.mean(share):.1%} {word}")
            row.append(", ".join(said))
        rows.append(row)
    return lines(["table", *names], rows) if names else "Not run yet."


def setting_block(results: Results) -> str:
    records = results["records"]
    rows = []
    for name in compared(records, "score"):
        own = picked(records, imputer=name)
        versions = sorted({r["version"] for r in own if r["version"]})
        draws = sorted({r["draws"] for r in own if r["draws"]})
        cells = [name, "; ".join(versions), ", ".join(map(str, draws)), str(len(own))]
        for what in ("failure", "timeout"):
            cells.append(str(sum(bool(r[what]) for r in own)))
        rows.append(cells)
    head = ["imputer", "version", "draws", "records", "crashes", "time-outs"]
    seeds = len({r["seed"] for r in records})
    said = (
        f"{len(records):,} records, {seeds} seeds; a fit may take {TIMEOUT:,} seconds, and tables "
    )
    said += f"are cut to {ROWS:,} rows."
    parts = [said, lines(head, rows)]
    lacking = [name for name in IMPUTERS if not picked(records, imputer=name)]
    if lacking:
        parts.append(f"Without any record yet: {', '.join(lacking)}.")
    if results["skipped"]:
        left = [f"- {one['name']}: {one['reason']}" for one in results["skipped"]]
        parts.append("Left out:\n\n" + "\n".join(left))
    return "\n\n".join(parts)


def draw_ranks(records: Sequence[Record]) -> Any:
    """Draw mean ranks by each score, of tables of each role."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(ROLES), len(LESS_IS_BETTER), figsize=(12, 8), layout="constrained", squeeze=False
    )
    among = often(records)
    for row, role in zip(axes, ROLES, strict=True):
        for axis, (score, title) in zip(row, LESS_IS_BETTER.items(), strict=True):
            each = ranks(records, score, role, among).items()
            found = sorted(each, key=lambda one: -one[1].mean)
            counts = sorted({rank.pairs for _, rank in found})
            axis.set_title(f"{title},\ntables of {role}")
            if not found:
                axis.set_axis_off()
                continue
            for at, (name, rank) in enumerate(found):
                colour = "tab:red" if name == OURS else "tab:blue"
                axis.errorbar(rank.mean, at, xerr=np.nan_to_num(rank.error), fmt="o", color=colour)
                axis.annotate(
                    f"{rank.mean:.1f}", (rank.mean, at), (0, 6), textcoords="offset points",
                    ha="center", fontsize=8, color=colour,
                )  # fmt: skip
            axis.set_yticks(range(len(found)), [name for name, _ in found])
            axis.set_ylim(-0.6, len(found) - 0.2)
            axis.set_xlim(0.5, len(found) + 0.5)
            spans = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
            axis.set_xlabel(f"mean rank (1 is best),\n{spans} pairs of table and protocol")
            axis.grid(axis="x", alpha=0.3)
    return figure


def write(results: Results) -> None:
    """Write the page's blocks and its figure."""
    records = results["records"]
    blocks = {
        "setting": setting_block(results),
        "ranks": rank_block(records),
        "duels": duel_block(records),
        "against": against_block(records),
        "coverage": coverage_block(records),
        "costs": cost_block(records),
        "ugly": ugly_block(records),
        "scores": score_block(records),
    }
    for name, text in blocks.items():
        write_block(PAGE, name, text)
    draw_ranks(records).savefig(FIGURE, dpi=100)
