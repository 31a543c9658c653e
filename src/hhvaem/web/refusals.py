"""What is refused, with the status of the answer and one sentence."""

import re

# What the page calls kinds (`page/parts/kinds.js`).
LABELS = {
    "real": "any number",
    "positive": "number from 0",
    "count": "whole number",
    "binary": "two levels",
    "categorical": "levels",
    "ordinal": "levels in order",
    "datetime": "date",
    "constant": "always the same",
    "ignored": "left as it is",
}
_NAME = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
# Rows, which a table on the page counts from 1; what is quoted says something else.
_ROW = re.compile(rf"(?<!\w){_NAME}|\b(?<=row )(\d+)(?! \(counted)")
# Rules, which the page calls otherwise.
_RULE_OF = {"edge": "edges", "sure": "sure"}
_RULES = re.compile(r"\b(?:decided|confident), or --(edge|sure)\b")
# In messages of the library: what to pass in Python.
_KINDS = re.compile(rf"kinds=\{{{_NAME}: '(\w+)'\}}")
_LEAVING = re.compile(rf"pass it through with kinds=\{{{_NAME}: 'ignored'\}}")
_CANNOT = re.compile(rf"^(Column {_NAME} cannot be) (\w+)(?=:)")
_ASKED = re.compile(r"(?<=; )ask for ('\w+'(?: or '\w+')?)(?=\.$)")
_MISSING = re.compile(
    r"make (it|them) missing \(on the command line: --missing\)(?: and convert it to \w+)?"
)
_MISSING_HERE = r"name \1 on the start page, below the place for files, and choose the file again"


class RefusedError(Exception):
    """A request that is refused.

    Parameters
    ----------
    status
        Of the answer.
    sentence
        What is wrong, and what to do.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def absent(what: str) -> RefusedError:
    """Refuse what there is not, or what belongs to another: nobody can tell which."""
    return RefusedError(404, f"There is no such {what}; it may have been removed, or be another's.")


def for_readers(sentence: str) -> str:
    """Say in the words of the page what a message says in Python or with options of a command.

    Examples
    --------
    >>> for_readers("drop it, or pass it through with kinds={'zip code': 'ignored'}.")
    'drop it, or leave it as it is.'
    >>> for_readers("model it anyway with kinds={'zip code': 'categorical'}.")
    "model it anyway as 'levels'."
    >>> for_readers("looks like a row number; kinds={'id': 'ignored'} leaves it out")
    "looks like a row number; choosing 'left as it is' leaves it out"
    >>> for_readers("Column 'age' cannot be count: it holds 0.5 in row 0; ask for 'real'.")
    "Column 'age' cannot be 'whole number': it holds 0.5 in row 1; choose 'any number'."
    >>> for_readers("row 0 holds 'row 1' and row 12 holds 5")
    "row 1 holds 'row 1' and row 13 holds 5"
    >>> for_readers("'?' is there; make it missing (on the command line: --missing)")
    "'?' is there; name it on the start page, below the place for files, and choose the file again"
    >>> for_readers("fit a model for each, or say --task for all.")
    'fit a model for each, or say kind_of_target for all.'
    >>> for_readers("`kinds` names no column."), for_readers("Name the levels that --kind names.")
    ('The request names no column.', 'Name the levels that the request names.')
    >>> for_readers("No edge (decided, --edge); there is confident, or --sure.")
    'No edge; there is the rule `sure`.'
    """
    found = _RULES.sub(lambda rule: f"the rule `{_RULE_OF[rule[1]]}`", sentence)
    found = re.sub(r" \((?:decided, --edge|confident, --sure)\)", "", found)
    found = _LEAVING.sub("leave it as it is", _MISSING.sub(_MISSING_HERE, found))
    found = _CANNOT.sub(lambda told: f"{told[1]} '{_label(told[2])}'", found)
    found = _ASKED.sub(lambda told: f"choose {_labelled(told[1])}", found)
    found = re.sub(rf"with {_KINDS.pattern}", lambda told: f"as '{_label(told[1])}'", found)
    found = _KINDS.sub(lambda told: f"choosing '{_label(told[1])}'", found)
    found = re.sub(r" \(in polars an Enum; on the command line: [^)]*\)", "", found)
    found = _ROW.sub(lambda row: str(int(row[1]) + 1) if row[1] else row[0], found)
    found = found.replace("--task", "kind_of_target")
    return re.sub(r"(^|[.!?] )?(?:`kinds`|--kind\b)", _request, found)


def _label(kind: str) -> str:
    return LABELS.get(kind, kind)


def _labelled(kinds: str) -> str:
    return re.sub(r"'(\w+)'", lambda told: f"'{_label(told[1])}'", kinds)


def _request(found: re.Match[str]) -> str:
    """Name the request, with a large letter where a sentence begins."""
    return "the request" if found[1] is None else f"{found[1]}The request"
