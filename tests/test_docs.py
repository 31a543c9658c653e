"""What README and docs show runs as it stands there, and the reference is that of the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from reference import reference

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
SHOWING = [page for page in PAGES if "```python" in page.read_text()]
# What must be true after the examples of a page.
CHECKS = {
    "README.md": "assert table['age'].null_count and not any(c.null_count for c in full.columns)",
    "training.md": "assert history.loss[0, -20:].mean() < history.loss[0, :20].mean()",
    "fill.md": "assert len(draws) == 5 and not any(c.null_count for c in full.columns)",
    "ask.md": "assert found.low < found.value < found.high and len(why.answers) == 3",
    "trust.md": "assert words['crp'] == 'trust' and page.startswith('<!doctype')",
    "images.md": "assert error['chains'] < error['encoder alone'] < error['means of pixels'] "
    "and (same == full).all() and (full[~np.isnan(new)] == new[~np.isnan(new)]).all()",
    "scale.md": "assert len(rows) == 600 and not any(v is None for r in rows for v in r.values())",
    "predict.md": "assert (low <= up).all() and abs(chances.sum(1) - 1).max() < 1e-6",
}


# Those that take longer than half a minute: they fit models.
LONG = (
    "README.md",
    "ask.md",
    "fill.md",
    "images.md",
    "predict.md",
    "multiple-imputation.md",
    "scale.md",
    "training.md",
    "trust.md",
)


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if p.name in LONG else ()) for p in SHOWING],
    ids=lambda page: page.name,
)
def test_the_examples_of_a_page_run(
    tmp_path: Path, page: Path, request: pytest.FixtureRequest
) -> None:
    if page.name == "data.md":
        request.getfixturevalue("data_folder")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{CHECKS.get(page.name, '')}"],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_reference_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "reference.md").read_text() == reference(), (
        "run `python tests/reference.py`"
    )


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), (page.name, link)
