"""`Action`: a change of a repository as a value. Its fields are its options, for the shell, Python, Airflow and forms.

Nothing of the engine is imported here or at the top of an action's module, because Airflow reads the fields.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..counts import versions_of
from ..notebook import NotebookResult
from ..values import dataclass

if TYPE_CHECKING:
    from ..protocol.entries import Entry
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit, Kind, Plan
    from ..protocol.refs import Refs
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened
    from ..run.drain import OnProgress
    from ..sources.contract import SourceFile

Parsed = Literal[
    "text", "version", "time", "times", "file", "flag", "keys", "lists", "pairs", "function", "functions",
    "rules", "counts", "seconds", "progress",
]  # fmt: skip
"""What an option is: text, a version or a tag, a time, times by name, the path of a file, yes and no, keys of the
operator that the field `operator` names, lists of texts by name, texts by name, the reference of a function, a function
for each operator that the field `operators` names, texts or whole numbers by operator, seconds, or a function that
shows the progress, for which a command has no option."""
HOW = frozenset({"spark", "engine", "tasks", "on_progress", "reason"})
"""Fields that do not decide what is made."""
ActionStep = Callable[[Any], Any]
"""A step of a `StepsAction`. It gets the plan so far, and returns it with what it did."""


@dataclass(frozen=True)
class Option:
    """How a field of an action is given.

    `help` is for the shell. `form` is for Airflow: for the operator, which without it says `help`, and for the form of
    `NAME__correct`, which without it does not have the field.
    `flag` is the name of the option in the shell, by default that of the field. `is_needed`: the form needs this field,
    or another one that is needed.
    """

    help: str
    form: str = ""
    flag: str = ""
    metavar: str = ""
    parsed: Parsed = "text"
    choices: tuple[str, ...] = ()
    """The only texts that the shell accepts."""
    in_shell: bool = True
    """Whether the command has it."""
    in_python: bool = True
    """Whether the method of `Repository` has it."""
    in_airflow: bool = True
    """Whether the operator of Airflow has it."""
    airflow_name: str = ""
    """What the operator of Airflow calls it, by default like the field."""
    airflow_default: bool | None = None
    """The default of a flag in Airflow, by default that of the field."""
    is_argument: bool = False
    """Whether it has no flag in the shell."""
    is_repeated: bool = False
    is_line_each: bool = False
    """Whether the form has a line for each value. Otherwise it takes one."""
    is_needed: bool = False

    def name_in_airflow(self, field: str) -> str:
        """Return the name of a field's argument in Airflow; empty if the operator does not have it."""
        return (self.airflow_name or field) if self.in_airflow and self.in_shell else ""


def option(said: Option, default: Any = dataclasses.MISSING) -> Any:
    """Return a field of an action. Without a default it is required."""
    return dataclasses.field(default=default, metadata={"option": said})


def source_of_files(help: str) -> Any:
    """Return the field that names the source of files. Python has none, because there a file is (source, path)."""
    return option(Option(help, metavar="NAME", form="the source, if several have such a file.", in_python=False), None)


@dataclass(frozen=True)
class SeenBranch:
    """What an action sees before it commits: the place of the next commit, and the plan that is open there, or None."""

    origin: Origin
    plan: Plan | None

    @property
    def place(self) -> str:
        """The head, such as `main@4`."""
        return f"{self.origin.refs.name_of(self.origin.branch)}@{self.origin.parent.version}"

    @property
    def identity(self) -> list[str]:
        """What differs if anything else was planned or committed."""
        return [self.origin.refs.uuid, self.origin.parent.checksum, "" if self.plan is None else self.plan.plan_id]


@dataclass(frozen=True)
class SeenRefs:
    """What an action sees before it adds an entry to `refs/`. Entries about something else do not matter to it."""

    refs: Refs

    @property
    def place(self) -> str:
        """No version: the entry is not one."""
        return "refs"

    @property
    def identity(self) -> list[str]:
        """The repository."""
        return [self.refs.uuid, self.refs.root]


@dataclass(frozen=True, kw_only=True)
class ActionPlan(NotebookResult):
    """What an action will do if the repository is then as it was `seen`."""

    verb: str
    seen: SeenBranch | SeenRefs = dataclasses.field(repr=False)

    def in_notebook(self) -> dict[str, Any]:
        """Return what will happen, and what it requires."""
        return {"changes": self.lines(), "requires": self.requires}

    @property
    def requires(self) -> str:
        """The head, and a digest of it, of the open plan, and of what will happen, such as `main@4:0c1f9b2e77d0`.

        An action that adds an entry to `refs/` requires `refs` and a digest of what will happen. To be given as
        `expect`.
        """
        said = json.dumps([self.verb, self.seen.identity, self.content()], sort_keys=True, default=str)
        digest = hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:12]
        return f"{self.seen.place}:{digest}"

    def content(self) -> Any:
        """Return all that will happen, as JSON values, also what `as_dict` does not show, such as ETags of files."""
        return self.lines()

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        raise NotImplementedError

    def details(self) -> list[str]:
        """Return more lines, which only a dry run shows."""
        return []

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines: `requires`, `changes` in words, and what the action adds."""
        return {"requires": self.requires, "changes": self.lines()}


@dataclass(frozen=True)
class MadeBefore:
    """What made an action before: what its method returns, the same in words and for machines, and its versions."""

    outcome: Any
    words: str
    versions: Sequence[int] = ()
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Action:
    """A change of a repository as a value: a `CommitAction`, `EntryAction` or `StepsAction`.

    `carry_out` calls the methods.

    The docstring of an action is the help of its command. `method` documents the method of `Repository`, which
    `tests/surface/generate.py` writes, as it writes the operator of Airflow.
    """

    verb: ClassVar[str]
    short_help: ClassVar[str | None] = None
    method: ClassVar[str]
    argument_order: ClassVar[tuple[str, ...]] = ()
    """The arguments of the method, in their order. By default the required fields come first."""
    operator_base: ClassVar[Literal["", "CorrectionOperator", "PromotionOperator", "UpkeepOperator"]] = ""
    """The base class of its operator in Airflow; empty if it has none. The form of `NAME__correct` has corrections,
    too."""

    @classmethod
    def is_correction(cls) -> bool:
        """Whether the form of `NAME__correct` has it."""
        return cls.operator_base == "CorrectionOperator"

    flag: ClassVar[Option]
    """Of an action without a command of its own: the flag by which another command carries it out."""
    knows_tries: ClassVar[bool] = False
    """Whether a later call, such as a retry of an Airflow task, can find what an earlier one did."""
    none_if_made: ClassVar[bool] = False
    """Whether `if_needed` then returns None, because nothing is left to return."""
    asks: ClassVar[bool] = True
    """Whether the command says before what it will do, and asks on a terminal."""
    may_move: ClassVar[bool] = False
    """Whether the repository may be at another place than where it was made."""
    made_if: ClassVar[str] = "an earlier try of this Airflow task made the correction"
    """When `if_needed` makes nothing, for the help."""

    @property
    def said_reason(self) -> str:
        """The reason, which the commit or entry records."""
        return str(getattr(self, "reason", ""))

    def precedes(self, repo: Opened) -> str:
        """Return what has to run before this action is looked at, in words; empty if nothing has to.

        It changes nothing on this branch. A dry run leaves it out.
        """
        del repo
        return ""

    def after_what_precedes(self, repo: Opened, on_progress: OnProgress | None) -> Action:
        """Run what precedes, and return the action that follows."""
        del repo, on_progress
        return self

    def made_before(self, repo: Opened) -> MadeBefore | None:
        """Return what made this before, for `if_needed`; None if nothing did."""
        del repo
        return None

    def begin(self, repo: Opened) -> bool:
        """Check what matters only if something is written, and complete what an earlier call left.

        Return whether that changed anything that `look` sees.
        """
        del repo
        return False

    def look(self, repo: Opened, seen: Any) -> ActionPlan:
        """Return what will happen. Writes nothing. `InvalidInput` if the action is impossible."""
        raise NotImplementedError

    def outcome(self, repo: Opened, plan: Any, made: Any) -> Any:
        """Return what the method of `Repository` returns, given the commit, or `refs/` with the new entry."""
        raise NotImplementedError

    def fields(self, plan: Any, made: Any) -> dict[str, Any]:
        """Return what was done, for machines."""
        del made
        found: dict[str, Any] = plan.as_dict()
        return found

    def done(self, plan: Any, made: Any) -> str:
        """Return what was done, in words."""
        raise NotImplementedError

    def asks_about(self, plan: Any) -> bool:
        """Whether the command says before what it will do, and asks on a terminal."""
        del plan
        return self.asks

    def did_nothing(self, plan: Any) -> bool:
        """Whether nothing was left to do."""
        del plan
        return False


@dataclass(frozen=True, kw_only=True)
class CommitAction(Action):
    """A correction that one commit makes: begin, look, hold, prepare, commit, publish, finish."""

    kind: ClassVar[Kind]
    knows_tries = True

    def look(self, repo: Opened, seen: SeenBranch) -> ActionPlan:
        """Return what will happen. Writes nothing. `InvalidInput` if the action is impossible."""
        raise NotImplementedError

    def made_before(self, repo: Opened) -> MadeBefore | None:
        """Return the commits by which earlier tries of this Airflow task did the same on this branch.

        A commit with the same kind and reason counts, if the same was asked for. Commits of earlier releases do not say
        what was. If that try died before it had published, the next run publishes.
        """
        from ..reading.tries import earlier_tries

        tries = [repo.log.commit(version) for version in earlier_tries(repo)]
        said = (repo.branch, self.kind, self.said_reason)
        same = [one for one in tries if (one.branch, one.kind, one.reason or "") == said]
        asked = self.asked()
        made = [one for one in same if one.asked in ("", asked)]
        if not made:
            return None
        versions = [one.version for one in made]
        words = f"an earlier try of this task made the correction: {versions_of(versions)}"
        return MadeBefore(made[-1], words, versions)

    def asked(self) -> str:
        """Return a digest of the fields that decide what is made."""
        said = {name: _plain(getattr(self, name)) for name, _, _ in options_of(type(self)) if name not in HOW}
        text = json.dumps([self.verb, said], sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]

    def first(self, plan: Any) -> Sequence[Changes]:
        """Return what versions before the commit record that change nothing else, one after the other."""
        del plan
        return ()

    def unneeded(self, plan: Any) -> Mapping[str, Collection[int]]:
        """Return by sink the versions that need not be published first, because the commit withdraws them."""
        del plan
        return {}

    def hold(self, repo: Opened, plan: Any) -> None:
        """Keep what the commit will name, until it does."""

    def prepare(self, repo: Opened, plan: Any, origin: Origin, to: Writing) -> Changes:
        """Store what the commit after `origin` will name, note each object in `to.stored`, and return its changes."""
        raise NotImplementedError

    def earlier(self, plan: Any) -> Commit | None:
        """Return the newest version if an earlier call made it for this, and died before `finish`."""
        del plan
        return None

    def finish(self, repo: Opened, plan: Any, commit: Commit) -> Any:
        """Do what follows the commit, and return the plan with what was found. After a crash, the next run does it."""
        del repo, commit
        return plan

    def outcome(self, repo: Opened, plan: Any, made: Commit) -> Commit:
        """Return the commit."""
        del repo, plan
        return made


@dataclass(frozen=True, kw_only=True)
class EntryAction(Action):
    """A change that one entry of `refs/` makes: begin, look, append. No version is made.

    `look` is called again if another entry was added in the meantime, so the entry fits what it follows.
    """

    def look(self, repo: Opened, seen: SeenRefs) -> ActionPlan:
        """Return what will happen. Writes nothing. `InvalidInput` if the action is impossible."""
        raise NotImplementedError

    def is_done(self, plan: Any, refs: Refs) -> bool:
        """Whether it is so already, for example because another caller did the same in the meantime."""
        del plan, refs
        return False

    def entry(self, repo: Opened, plan: Any, refs: Refs) -> Entry:
        """Return the entry after `refs`."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class StepsAction(Action):
    """Upkeep in several steps: begin, start, and then each step. Every step may be repeated, and looks for itself.

    With `expect`, what `look` finds is compared once, before the first step.
    """

    def look(self, repo: Opened, seen: SeenRefs) -> ActionPlan:
        """Return what will happen. Writes nothing. `InvalidInput` if the action is impossible."""
        raise NotImplementedError

    def start(self, repo: Opened, seen: SeenRefs) -> ActionPlan:
        """Return the plan before the first step, in which nothing is done."""
        raise NotImplementedError

    def steps(self, repo: Opened, agreed: Any) -> Sequence[ActionStep]:
        """Return the steps, in their order. They give up no more than was `agreed` to, unless that is None."""
        raise NotImplementedError

    def make_room(self, repo: Opened) -> bool:
        """Delete what needs no write before, because the disk is full. Return whether there was anything."""
        del repo
        return False


def options_of(action: type[Action]) -> Iterator[tuple[str, Option, Any]]:
    """Yield the name, the option and the default of each field; `dataclasses.MISSING` if it is required."""
    for one in dataclasses.fields(action):
        yield one.name, one.metadata["option"], one.default


def _plain(value: Any) -> Any:
    """Return the value of a field as JSON. Tables are their rows, functions their names."""
    if isinstance(value, Mapping):
        return sorted((str(name), _plain(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "to_pylist"):
        return _plain(value.to_pylist())
    if callable(value):
        return f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', repr(value))}"
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def content_of(files: Sequence[SourceFile]) -> list[list[str | int]]:
    """Return files for `ActionPlan.content`: with their bytes, they are other files."""
    return [[one.source, one.path, one.etag, one.size] for one in files]
