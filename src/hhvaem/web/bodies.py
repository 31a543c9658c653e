"""What requests say, as far as their form goes; whether it makes sense is told by what uses it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from hhvaem.containers import listed
from hhvaem.web.limits import Limits
from hhvaem.web.refusals import RefusedError

# What a job can be.
TASKS = ("fill", "predict", "evaluate")
# No object has more parts than a request may have cells.
_MOST_PARTS = Limits.request_cells


def too_many_rows(count: int, limits: Limits | type[Limits] = Limits) -> RefusedError:
    """Give the refusal of so many rows."""
    return RefusedError(
        413,
        f"{count:,} rows are too many for one request; send at most {limits.request_rows:,}, and "
        f"{limits.request_cells:,} cells.",
    )


def _few_rows(given: Any) -> Any:
    """Refuse too many rows before any of them is looked at."""
    if isinstance(given, list) and len(given) > Limits.request_rows:
        raise too_many_rows(len(given))
    return given


def _text(given: Any) -> None:
    if not isinstance(given, str):
        raise ValueError("give a text")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the text has half a letter, a surrogate; send it anew") from error


def _cell(given: Any) -> Any:
    """Refuse what is no cell in one sentence: of a union each member would have its own."""
    if isinstance(given, str):
        _text(given)
    elif not (given is None or isinstance(given, bool | int | float)):
        raise ValueError("give a number, a text, true, false or null")
    return given


def _one_by_one(check: Callable[[Any], Any]) -> BeforeValidator:
    """Check the parts of an object or a list up to the first bad one.

    Parts are as many as eight megabytes hold, and to list what is wrong with each of them would
    take minutes and gigabytes.
    """

    def checked(given: Any) -> Any:
        parts: Iterable[tuple[Any, Any]] = ()
        if isinstance(given, dict):
            if len(given) > _MOST_PARTS:
                raise ValueError(f"{len(given):,} names are too many; give {_MOST_PARTS:,} at most")
            parts = given.items()
        elif isinstance(given, list):
            parts = enumerate(given)
        for place, part in parts:
            try:
                if isinstance(place, str):
                    _text(place)
                check(part)
            except ValueError as error:
                raise _first(error, place) from error
        return given

    return BeforeValidator(checked)


# What is wrong with a value, by what the checks of a form call it.
_IN_WORDS = {
    "missing": "it is missing; give it",
    "bool": "give true or false",
    "float": "give a number",
    "finite_number": "give a finite number",
    "int": "give a whole number",
    "string": "give a text",
    "list": "give a list",
    # What is no object.
    "model": "it is no object of names and values",
    "dict": "it is no object of names and values",
    "literal_error": "give one of {expected}",
    "enum": "give one of {expected}",
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give less than {lt}",
    "less_than_equal": "give {le} or less",
    "too_short": "give at least {min_length}",
    "too_long": "give at most {max_length}",
}


def in_words(fault: Mapping[str, Any]) -> str:
    """Say what is wrong with a value.

    Examples
    --------
    >>> in_words({"type": "int_parsing", "msg": "Input should be a valid integer"})
    'give a whole number'
    >>> in_words({"type": "too_short", "msg": "...", "ctx": {"min_length": 1}})
    'give at least 1'
    >>> in_words({"type": "value_error", "msg": "Value error, give a text"})
    'give a text'
    """
    kind: str = fault["type"]
    # The type of a value is told as `int_type`, `int_parsing`, `int_from_float`, ...
    said = _IN_WORDS.get(kind) or _IN_WORDS.get(kind.partition("_")[0])
    own = str(fault["msg"]).removeprefix("Value error, ")
    return own if said is None else said.format(**fault.get("ctx", {}))


def _first(error: ValueError, *place: str | int) -> ValidationError:
    """Give the first fault of a part as that of a whole, with its place."""
    said = str(error)
    if isinstance(error, ValidationError):
        inner = error.errors()[0]
        place, said = (*place, *inner["loc"]), in_words(inner)
    fault = PydanticCustomError("part", "{said}", {"said": said})
    return ValidationError.from_exception_data(
        "request", [InitErrorDetails(type=fault, loc=place, input=None)]
    )


_Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None
Cell = Annotated[_Scalar, BeforeValidator(_cell)]
Cells = Annotated[dict[StrictStr, _Scalar], _one_by_one(_cell)]
Rows = Annotated[list[Cells], BeforeValidator(_few_rows)]
Names = Annotated[list[StrictStr], Field(max_length=1000), _one_by_one(_text)]
Kinds = Annotated[dict[StrictStr, StrictStr], _one_by_one(_text)]
Lists = Annotated[dict[StrictStr, Names], _one_by_one(TypeAdapter(Names).validate_python)]
Orders = Annotated[
    dict[StrictStr, Names],
    _one_by_one(TypeAdapter(Annotated[Names, Field(min_length=1)]).validate_python),
]
Number = Annotated[FiniteFloat, Field(strict=True)]
Costs = Annotated[dict[StrictStr, Number], _one_by_one(TypeAdapter(Number).validate_python)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Steps = Annotated[int, Field(ge=1, le=1_000_000)]
Level = Annotated[float, Field(gt=0, lt=1)]
Posterior = Literal["hmc", "encoder", "importance"] | None


class Problem(BaseModel):
    """What is wrong, in one sentence."""

    error: str


class _Body(BaseModel):
    # What is not known is most often a slip of the pen, and is told.
    # And nothing is taken for something else, such as true for 1.
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Refuse the first field that there is not; there may be very many."""
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                known = listed(list(cls.model_fields))
                raise _first(ValueError(f"there is no such field; there are {known}"), name)
        return given


class KindsBody(_Body):
    """What the owner of a table says of its columns."""

    kinds: Kinds = Field({}, description="Kinds of columns, by name.")
    orders: Orders = Field({}, description="Levels of text columns in order, all that occur.")


class FillBody(_Body):
    """A model that fills the table."""

    task: Literal["fill"]
    preset: Literal["fast", "default"] = "default"
    seed: Seed = 0
    max_steps: Steps | None = None

    def order(self) -> dict[str, Any]:
        """Give what the worker is told."""
        return {**_NONE, **self.model_dump()}


class PredictBody(FillBody):
    """A model that predicts targets from all other columns, and can be asked."""

    task: Literal["predict"]  # type: ignore[assignment]
    targets: Annotated[list[StrictStr], Field(min_length=1, max_length=20)]
    kind_of_target: Literal["regression", "classification"] | None = None


class EvaluateBody(FillBody):
    """The trust report: cells are hidden, filled and compared with the truth."""

    task: Literal["evaluate"]  # type: ignore[assignment]
    how: Literal["mcar", "mar", "mnar", "patterns"] = "mcar"
    against: Annotated[
        list[Literal["mean", "gaussian", "ridge", "missforest"]], Field(max_length=20)
    ] = ["mean", "gaussian", "ridge", "missforest"]


_NONE: dict[str, Any] = {"targets": [], "kind_of_target": None}
JobBody = Annotated[FillBody | PredictBody | EvaluateBody, Field(discriminator="task")]


class RulesBody(_Body):
    """When to stop asking; rules that are null do not apply."""

    budget: Annotated[FiniteFloat, Field(ge=0, description="What may be spent.")] | None = None
    least: Annotated[FiniteFloat, Field(ge=0, description="The least gain for a cost of 1.")] | (
        None
    ) = None
    sure: Annotated[FiniteFloat, Field(ge=0, le=1, description="How sure of a class to be.")] | (
        None
    ) = None
    edges: (
        Annotated[
            list[FiniteFloat],
            Field(max_length=20, description="The interval is to lie on one side of each."),
        ]
        | None
    ) = None
    most: Annotated[int, Field(ge=0, le=100_000, description="Answers at most.")] | None = None


class SessionBody(_Body):
    """A case to ask about."""

    model: StrictStr
    known: Cells = {}
    costs: Costs = {}
    groups: Lists = {}
    rules: RulesBody = RulesBody()
    look_ahead: bool = False


class AnswerBody(_Body):
    """What a person says of a column."""

    column: StrictStr
    answer: Literal["value", "unknown", "unmeasurable"] = "value"
    value: Cell = None


class SettingsBody(_Body):
    """Other costs or rules of a session."""

    costs: Costs | None = None
    rules: RulesBody | None = None


class ImputeBody(_Body):
    """Rows to fill."""

    rows: Rows
    level: Level | None = Field(None, description="Also give intervals of this probability.")
    posterior: Posterior = None


class SampleBody(_Body):
    """Rows to draw."""

    rows: Rows
    draws: Annotated[int, Field(ge=1)] = 20
    posterior: Posterior = None


class PredictRowsBody(_Body):
    """Rows to predict the targets of."""

    rows: Rows
    level: Level = 0.9
    posterior: Posterior = None


class AcquireBody(_Body):
    """Rows whose unknown cells are weighed."""

    rows: Rows
    costs: Costs | None = None
    method: Literal["grid", "histogram", "gaussian", "variance"] = "grid"
    posterior: Posterior = None
