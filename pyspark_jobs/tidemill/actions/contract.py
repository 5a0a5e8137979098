"""`Action`: a correction as a value. Its fields are its options, for the shell, Python, Airflow and forms.

Nothing of the engine is imported here or at the top of an action's module, because Airflow reads the fields.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from ..driver.context import Context
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit, Kind, Plan
    from ..protocol.successor import Origin
    from ..sources.contract import SourceFile
    from ..upkeep.rest_published import Writing

Parsed = Literal["text", "version", "time", "times"]
"""What the text of an option is: itself, a version or a tag, a time, or times by name."""


@dataclass(frozen=True)
class Option:
    """How a field of an action is given.

    `help` is for the shell. `form` is for the form of `NAME__correct`; without it the form does not have the field.
    `flag` is the name of the option in the shell, by default that of the field. `is_needed`: the form needs this field,
    or another one that is needed.
    """

    help: str
    form: str = ""
    flag: str = ""
    metavar: str = ""
    parsed: Parsed = "text"
    in_python: bool = True
    """Whether the method of `Repository` has it."""
    in_airflow: bool = True
    """Whether the operator of Airflow has it."""
    is_argument: bool = False
    """Whether it has no flag in the shell."""
    is_repeated: bool = False
    is_line_each: bool = False
    """Whether the form has a line for each value. Otherwise it takes one."""
    is_needed: bool = False


def option(said: Option, default: Any = dataclasses.MISSING) -> Any:
    """Return a field of an action. Without a default it is required."""
    return dataclasses.field(default=default, metadata={"option": said})


@dataclass(frozen=True)
class Seen:
    """What an action sees first: the place of the next commit, and the plan that is open there, or None."""

    origin: Origin
    plan: Plan | None


@dataclass(frozen=True, kw_only=True)
class ActionPlan:
    """What an action will do if the repository is then as it was `seen`."""

    verb: str
    seen: Seen = dataclasses.field(repr=False)

    @property
    def requires(self) -> str:
        """The head, and a digest of it, of the open plan, and of what will happen, such as `main@4:0c1f9b2e77d0`.

        To be given as `expect`.
        """
        origin, plan = self.seen.origin, self.seen.plan
        head = [origin.refs.uuid, origin.parent.checksum, "" if plan is None else plan.plan_id]
        said = json.dumps([self.verb, head, self.content()], sort_keys=True, default=str)
        digest = hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:12]
        return f"{origin.refs.name_of(origin.branch)}@{origin.parent.version}:{digest}"

    def content(self) -> Any:
        """Return all that will happen, as JSON values, also what `as_dict` does not show, such as ETags of files."""
        return self.lines()

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines: `requires`, `changes` in words, and what the action adds."""
        return {"requires": self.requires, "changes": self.lines()}


@dataclass(frozen=True, kw_only=True)
class Action:
    """A correction that one commit makes. `carry_out` calls the methods from `begin` to `finish`, in this order.

    The docstring of an action is the help of its command. `method` documents the method of `Repository`, which
    `tests/surface/generate.py` writes, as it writes the operator of Airflow.
    """

    verb: ClassVar[str]
    kind: ClassVar[Kind]
    short_help: ClassVar[str | None] = None
    method: ClassVar[str]
    argument_order: ClassVar[tuple[str, ...]] = ()
    """The arguments of the method, in their order. By default the required fields come first."""
    has_operator: ClassVar[bool] = False
    """Whether Airflow has an operator for this action, and the form of `NAME__correct` has it."""
    knows_tries: ClassVar[bool] = True
    """Whether a later try of an Airflow task can find what an earlier one did."""

    @property
    def said_reason(self) -> str:
        """The reason, which the commit records."""
        return str(getattr(self, "reason", ""))

    def begin(self, context: Context) -> None:
        """Check what matters only if something is written, and complete what an earlier call left."""

    def look(self, context: Context, seen: Seen) -> ActionPlan:
        """Return what will happen. Writes nothing. `InvalidInput` if the action is impossible."""
        raise NotImplementedError

    def hold(self, context: Context, plan: Any) -> None:
        """Keep what the commit will name, until it does."""

    def prepare(self, context: Context, plan: Any, origin: Origin, to: Writing) -> Changes:
        """Store what the commit after `origin` will name, note each object in `to.stored`, and return its changes."""
        raise NotImplementedError

    def finish(self, context: Context, commit: Commit) -> None:
        """Do what follows the commit. If the process dies before, the next run does it."""

    def outcome(self, context: Context, plan: Any, commit: Commit) -> Commit:
        """Return what the method of `Repository` returns."""
        del context, plan
        return commit

    def done(self, plan: Any, commit: Commit) -> str:
        """Return what was done, in words."""
        raise NotImplementedError


def options_of(action: type[Action]) -> Iterator[tuple[str, Option, Any]]:
    """Yield the name, the option and the default of each field; `dataclasses.MISSING` if it is required."""
    for one in dataclasses.fields(action):
        yield one.name, one.metadata["option"], one.default


def content_of(files: Sequence[SourceFile]) -> list[list[str | int]]:
    """Return files for `ActionPlan.content`: with their bytes, they are other files."""
    return [[one.source, one.path, one.etag, one.size] for one in files]
