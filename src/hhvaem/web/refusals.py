"""What is refused, with the status of the answer and one sentence."""

import re

# In messages of the library: what to pass in Python.
_KINDS = re.compile(r"with kinds=\{(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"): '(\w+)'\}")
# Rules, which the page calls otherwise.
_RULE_OF = {"edge": "edges", "sure": "sure"}
_RULES = re.compile(r"\b(?:decided|confident), or --(edge|sure)\b")


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
    """Say without Python and without options of a command what a message says with them.

    Examples
    --------
    >>> for_readers("pass it through with kinds={'zip code': 'ignored'}.")
    "pass it through as 'ignored'."
    >>> for_readers("fit a model for each, or say --task for all.")
    'fit a model for each, or say kind_of_target for all.'
    >>> for_readers("`kinds` names no column."), for_readers("Name the levels that --kind names.")
    ('The request names no column.', 'Name the levels that the request names.')
    >>> for_readers("No edge (decided, --edge); there is confident, or --sure.")
    'No edge; there is the rule `sure`.'
    """
    found = _RULES.sub(lambda rule: f"the rule `{_RULE_OF[rule[1]]}`", sentence)
    found = re.sub(r" \((?:decided, --edge|confident, --sure)\)", "", found)
    found = _KINDS.sub(r"as '\1'", found)
    found = re.sub(r" \(in polars an Enum; on the command line: [^)]*\)", "", found)
    found = found.replace("--task", "kind_of_target")
    return re.sub(r"(^|[.!?] )?(?:`kinds`|--kind\b)", _request, found)


def _request(found: re.Match[str]) -> str:
    """Name the request, with a large letter where a sentence begins."""
    return "the request" if found[1] is None else f"{found[1]}The request"
