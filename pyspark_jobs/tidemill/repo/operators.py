"""The operators that a repository has at a version: their declarations, their state, and whether the code fits them.

INVARIANT: a missing or different state is an error, so an operator never starts empty by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..operators.contract import describe
from ..protocol.bases import lay
from ..protocol.compatible import Difference, compare_operators, present_name, refuse_differences, renamed_schemas
from ..protocol.records import Commit, Segment
from ..protocol.refs import MAIN
from .opened import Opened


def recorded_schemas(repo: Opened, head: Commit | None) -> dict[str, dict[str, Any]]:
    """Return the recorded schemas of the operators that the repository has state for."""
    return dict(head.schemas) if head is not None else dict(repo.initialised().schemas)


def live_state(repo: Opened, head: Commit | None) -> dict[str, dict[str, list[Segment]]]:
    """Return the live segments of a version, plus initial state that no batch has used yet. None is version -1."""
    return {**committed_state(repo, head), **initial_state(repo, head)}


def committed_state(repo: Opened, commit: Commit | None) -> dict[str, dict[str, list[Segment]]]:
    """Return the live segments that a commit lists, with merged segments in their place where there are any."""
    bases = repo.initialised().bases
    if commit is None:
        return {}
    return lay(commit.state, bases, commit.schemas) if bases else commit.state


def initial_state(repo: Opened, head: Commit | None) -> dict[str, dict[str, list[Segment]]]:
    """Return the initial state of operators that had no batch up to `head`. The next batch is their first."""
    seen = head.state if head is not None else {}
    seeds = repo.initialised().seeds
    return {name: seed.maps for name, seed in seeds.items() if name not in seen and name in repo.operators}


def declared_operators(repo: Opened, head: Commit | None) -> dict[str, dict[str, Any]]:
    """Return the operators that `init` declared, with their schemas at that time and their present names.

    A branch has the operators of its code. A new one begins there only if the branch starts at version -1, or a
    replay names it, so that none starts empty by accident. The state of one that the code no longer has ends.
    """
    found = renamed_schemas(repo.initialised().schemas, () if head is None else head.renamed)
    if repo.branch == MAIN:
        return found | _promoted(repo, head, found)
    known = found | ({} if head is None else dict(head.schemas))
    if repo.recorded is not None:
        return known  # only code can describe an operator that begins
    new = frozenset(repo.operators) if head is None else repo.begins
    names = [name for name in repo.operators if name in known or name in new]
    return {name: known.get(name) or describe(repo.job.operators[name].operator) for name in names}


def _promoted(repo: Opened, head: Commit | None, found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the operators that began on a branch which was promoted, and that `refs/` does not have yet."""
    if head is None:
        return {}
    former = {present_name(name, (), head.renamed) for name in repo.initialised().former}
    return {name: head.schemas[name] for name in head.state if name not in found and name not in former}


def _must_fit(repo: Opened, operator: str, head: Commit | None) -> bool:
    """Whether the code must declare an operator as it is recorded.

    An operator without state need not, once the plan that was made with the wrong declaration is abandoned. Neither
    need one of a branch that starts at version -1: it begins there, as the code declares it.
    """
    if operator in repo.initialised().seeds:
        return True
    return repo.branch == MAIN if head is None else operator in head.state


def differences(repo: Opened, head: Commit | None) -> list[Difference]:
    """Return how the code's operators differ from those that the repository has at `head`."""
    ours = {name: describe(placed.operator) for name, placed in repo.job.operators.items()}
    declared = declared_operators(repo, head)
    recorded = {**declared, **(head.schemas if head is not None else {})}
    must_fit = {name for name in ours if _must_fit(repo, name, head)}
    return compare_operators(
        declared, recorded, ours, must_fit=must_fit, has_state=head is not None, is_main=repo.branch == MAIN
    )


def check_operators(repo: Opened, head: Commit | None) -> None:
    """Raise `InvalidInput` if the code's operators do not fit those of the repository, or their state."""
    refuse_differences(differences(repo, head))
