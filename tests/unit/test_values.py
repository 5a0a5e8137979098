"""`values.dataclass` makes what `dataclasses.dataclass` makes. Each shape is declared twice and compared."""

import copy
import dataclasses
import functools
import inspect
import pickle

import pytest

from tidemill import values


class Plain:
    """Defaults of each kind."""

    a: int
    b: "str | None" = None
    c: list = dataclasses.field(default_factory=list)
    d: int = dataclasses.field(default=4, compare=False, repr=False)


class KeywordsToo:
    """Fields by keyword, behind one by place."""

    a: int
    b: int = dataclasses.field(default=2, kw_only=True)
    c: int = 3


class Checked:
    a: int = 1

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError(f"a is {self.a}")


class OwnMethods:
    """Its own `repr`, equality and hash stay."""

    a: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnMethods) and self.a % 2 == other.a % 2

    def __hash__(self) -> int:
        return self.a % 2


class SetLater:
    """Fields that no caller gives."""

    a: int
    b: list = dataclasses.field(init=False, default_factory=list)
    c: int = dataclasses.field(init=False, default=3)
    d: int = dataclasses.field(init=False, repr=False, compare=False)


class Nothing:
    """No field."""


SHAPES = [(Plain, (1,)), (KeywordsToo, (1,)), (Checked, ()), (OwnMethods, (1,)), (SetLater, (1,)), (Nothing, ())]
GIVEN = [{}, {"frozen": True}, {"frozen": True, "eq": False}, {"frozen": True, "kw_only": True}, {"eq": False}]


def declared(shape, make, given):
    return make(**given)(type(shape.__name__, (), {**vars(shape), "__qualname__": shape.__name__}))


def outcome(call):
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize(("shape", "arguments"), SHAPES, ids=lambda value: getattr(value, "__name__", None))
def test_a_class_is_as_the_standard_library_makes_it(shape, arguments, given):
    ours, theirs = (declared(shape, make, given) for make in (values.dataclass, dataclasses.dataclass))
    if given.get("kw_only"):
        first = dict.fromkeys(list(ours.__dataclass_fields__)[:1], 1)
        made = [kind(**first) for kind in (ours, theirs)]
    else:
        made = [kind(*arguments) for kind in (ours, theirs)]

    def both(look):
        found = [outcome(functools.partial(look, *each)) for each in zip((ours, theirs), made, strict=True)]
        assert found[0] == found[1]
        return found[0]

    both(lambda kind, _: str(inspect.signature(kind)))
    both(lambda kind, _: [(f.name, f.type, f.default, f.kw_only) for f in dataclasses.fields(kind)])
    both(lambda kind, _: str(kind.__dataclass_params__))
    both(lambda kind, _: kind.__match_args__)
    both(lambda kind, _: kind.__init__.__qualname__)
    both(lambda _, one: repr(one))
    both(lambda _, one: dataclasses.asdict(one))
    both(lambda kind, one: repr(kind(**dataclasses.asdict(one))))
    both(lambda kind, one: outcome(lambda: hash(copy.copy(one)) == hash(one)))
    both(lambda _, one: one == 1)
    both(lambda _, one: copy.deepcopy(one) == one)
    both(lambda kind, _: repr(kind(-1)))
    both(lambda kind, _: repr(kind(1, 2, 3, 4, 5)))
    both(lambda _, one: setattr(one, "a", 5))
    both(lambda _, one: repr(dataclasses.replace(one, a=7)))
    both(lambda _, one: delattr(one, "a"))
    both(lambda _, one: setattr(one, "unknown", 5))


def test_a_subclass_of_another_kind_may_have_attributes_of_its_own():
    class More(declared(Plain, values.dataclass, {"frozen": True})):
        pass

    one = More(1)
    one.note = "kept"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2
    assert one.note == "kept"


def test_a_dataclass_inherits_fields():
    base = declared(Plain, values.dataclass, {"frozen": True})

    @values.dataclass(frozen=True)
    class More(base):
        e: int = 5

    assert str(inspect.signature(More)).startswith("(a: int, b: ")
    assert More.__match_args__ == ("a", "b", "c", "d", "e")
    assert repr(More(1, e=6)).endswith("More(a=1, b=None, c=[], e=6)")
    assert hash(More(1, c=())) == hash(More(1, c=(), d=9))
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        values.dataclass(type("Other", (base,), {}))
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Other", (base,), {}))


def test_the_default_list_is_new_for_each_instance():
    kind = declared(Plain, values.dataclass, {})
    assert kind(1).c is not kind(1).c
    given = [1]
    assert kind(1, c=given).c is given


@values.dataclass(frozen=True)
class Sent:
    """A value that goes to another process."""

    a: int


def test_a_value_is_pickled_before_its_class_was_used():
    assert pickle.loads(pickle.dumps(Sent(3))) == Sent(3)


@pytest.mark.parametrize(
    "use",
    [
        lambda one, other: one == other,
        lambda one, other: hash(one) == hash(other),
        lambda one, other: repr(one) == repr(other) and repr(one).endswith("Fresh(a=1, b=None)"),
        lambda one, other: dataclasses.replace(one, a=1) == other,
        lambda one, other: dataclasses.is_dataclass(one),
        lambda one, other: one.__match_args__ == ("a", "b"),
    ],
)
def test_instances_that_no_init_made_work_at_once(use):
    @values.dataclass(frozen=True)
    class Fresh:
        a: int
        b: str | None = None

    one, other = object.__new__(Fresh), object.__new__(Fresh)
    for each in (one, other):
        vars(each).update(a=1, b=None)
    assert use(one, other)


def test_an_instance_that_no_init_made_is_frozen_at_once():
    @values.dataclass(frozen=True)
    class Fresh:
        a: int = 1

    one = object.__new__(Fresh)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2


def test_a_value_that_contains_itself_is_shown():
    one = declared(Plain, values.dataclass, {})(1)
    one.c.append(one)
    assert repr(one) == "Plain(a=1, b=None, c=[...])"


def test_annotations_of_the_signature_are_names_of_the_module():
    import inspect
    import typing

    import tidemill as tm

    hints = typing.get_type_hints(tm.BatchProgress.__init__)
    assert hints["return"] is type(None)
    assert all(not isinstance(one, str) for one in hints.values())
    assert (
        inspect.signature(tm.BatchProgress, eval_str=True).parameters.keys()
        == inspect.signature(tm.BatchProgress).parameters.keys()
    )
