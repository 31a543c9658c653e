"""What requests say, as far as their form goes; whether it makes sense is told by what uses it."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

Cell = StrictBool | StrictInt | StrictFloat | StrictStr | None
Names = Annotated[list[StrictStr], Field(max_length=1000)]
Costs = dict[StrictStr, FiniteFloat]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Steps = Annotated[int, Field(ge=1, le=1_000_000)]
Level = Annotated[float, Field(gt=0, lt=1)]
Posterior = Literal["hmc", "encoder", "importance"] | None
Rows = list[dict[StrictStr, Cell]]


class Problem(BaseModel):
    """What is wrong, in one sentence."""

    error: str


class _Body(BaseModel):
    # What is not known is most often a slip of the pen, and is told.
    model_config = ConfigDict(extra="forbid")


class KindsBody(_Body):
    """What the owner of a table says of its columns."""

    kinds: dict[StrictStr, StrictStr] = Field({}, description="Kinds of columns, by name.")
    orders: dict[StrictStr, Names] = Field(
        {}, description="Levels of text columns in order, all that occur."
    )


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
    against: list[Literal["mean", "gaussian", "ridge", "missforest"]] = [
        "mean",
        "gaussian",
        "ridge",
        "missforest",
    ]


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
    known: dict[StrictStr, Cell] = {}
    costs: Costs = {}
    groups: dict[StrictStr, Names] = {}
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
