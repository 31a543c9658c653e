"""Writes what a script made into its place in a page of the docs."""

import re
from pathlib import Path


def write_block(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    content = page.read_text()
    if not pattern.search(content):
        raise SystemExit(f"{page} has no block {begin} ... {end}.")
    page.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", content))
