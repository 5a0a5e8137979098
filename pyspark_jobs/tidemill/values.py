"""`dataclass`, as in the standard library, for classes that every process declares and few of them use.

The standard library compiles up to six functions for each class when it is declared: more than a millisecond, for some
hundred classes, before a small run begins. Here a class gets its fields and methods when one of them is first looked
up, and only its `__init__` is compiled. INVARIANT: a class has the same fields, signature, `repr`, equality, hash and
errors as with `dataclasses.dataclass`, and `dataclasses.fields`, `replace` and `asdict` accept it.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, slots=False, kw_only=False):
        """Make a class a dataclass. Fields with `InitVar` are not supported."""

        def made(cls: type) -> type:
            if order or slots or any(one.frozen is not frozen for one in _inherited(cls, "__dataclass_params__")):
                given = {"frozen": frozen, "eq": eq, "order": order, "slots": slots, "kw_only": kw_only}
                return dataclasses.dataclass(**given)(cls)
            return _declared(cls, frozen, eq, kw_only)

        return made if cls is None else made(cls)


def _declared(cls: Any, frozen: bool, eq: bool, kw_only: bool) -> Any:
    own = {name for name, value in vars(cls).items() if name != "__hash__" or value is not None}

    def make() -> None:
        # Two threads may both do it; what they make is equal.
        _add_fields(cls, kw_only)
        known = cls.__dataclass_params__
        known.init, known.repr, known.eq, known.frozen = True, True, eq, frozen
        for name, method in _methods(cls, frozen, eq).items():
            if name not in own:
                setattr(cls, name, method)

    for name in (*_RECORDED, "__init__", *(_COMPARED if eq else ()), *(_REFUSED if frozen else ())):
        if name not in own:
            setattr(cls, name, _Unmade(cls, name, make))
    if "__repr__" not in own:
        cls.__repr__ = _repr
    if eq and not frozen and "__hash__" not in own:
        cls.__hash__ = None
    if any(isinstance(value, dataclasses.Field) for value in vars(cls).values()):
        make()  # such an attribute becomes the default, or goes
    return cls


_RECORDED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_COMPARED, _REFUSED = ("__eq__", "__hash__"), ("__setattr__", "__delattr__")


class _Unmade:
    """An attribute of a class until one of them is first looked up. Then all of them are made."""

    def __init__(self, cls: Any, name: str, make: Callable[[], None]) -> None:
        self.cls, self.name, self.make = cls, name, make

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self.make()
        found = vars(self.cls)[self.name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _methods(cls: Any, frozen: bool, eq: bool) -> dict[str, Any]:
    methods: dict[str, Any] = {"__init__": _Init(cls, frozen)}
    if eq:
        methods["__eq__"], hashed = _comparisons(cls)
        methods["__hash__"] = hashed if frozen else None
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _refusals(cls)
    return methods


def _add_fields(cls: Any, kw_only: bool) -> None:
    """Add what the standard library records of fields. It makes them from a class that has nothing else.

    Given the class itself, it would compile methods if a base is frozen, and a signature if there is no docstring.
    """
    annotations = inspect.get_annotations(cls)
    defaults = {name: vars(cls)[name] for name in annotations if name in vars(cls)}
    about = {"__module__": cls.__module__, "__doc__": cls.__name__, "__annotations__": annotations}
    alone: Any = type(cls.__name__, (), {**about, **defaults})
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(alone)
    for name in defaults:
        if name in vars(alone):
            setattr(cls, name, vars(alone)[name])
        else:
            delattr(cls, name)
    fields = {}
    for inherited in [*reversed(_inherited(cls, "__dataclass_fields__")), alone.__dataclass_fields__]:
        fields.update(inherited)
    cls.__dataclass_fields__, cls.__dataclass_params__ = fields, alone.__dataclass_params__
    setattr(cls, "__match_args__", tuple(one.name for one in dataclasses.fields(cls) if one.init and not one.kw_only))  # noqa: B010 — mypy knows it as final


def _inherited(cls: type, name: str) -> list[Any]:
    return [getattr(base, name) for base in cls.__mro__[1:] if name in vars(base)]


class _Init:
    """The `__init__` of a class until it is first looked up. Then the compiled function takes its place."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # Two threads may both compile it; the functions are equal.
        self.cls.__init__ = made = _init(self.cls, self.frozen)
        return made.__get__(instance, owner)


class _Factory:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: Any, frozen: bool) -> Any:
    scope: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": object.__setattr__}
    takes: tuple[list[str], list[str]] = ([], [])
    body = []
    for one in dataclasses.fields(cls):
        name, value = one.name, one.name
        default = ""
        if one.default is not dataclasses.MISSING:
            scope[f"_default_{name}"], default = one.default, f"=_default_{name}"
        elif one.default_factory is not dataclasses.MISSING:
            scope[f"_new_{name}"], default = one.default_factory, "=_FACTORY"
            value = f"_new_{name}() if {name} is _FACTORY else {name}"
        if one.init:
            takes[bool(one.kw_only)].append(f"{name}{default}")
        elif default != "=_FACTORY":
            continue  # the class has the value, or `__post_init__` sets it
        else:
            value = f"_new_{name}()"
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    names = ["self", *takes[0], *(["*", *takes[1]] if takes[1] else [])]
    lines = [
        f"def made({', '.join(scope)}):",
        f" def __init__({', '.join(names)}):",
        *(f"  {one}" for one in body or ["pass"]),
    ]
    code, found = "\n".join([*lines, " return __init__"]), dict[str, Any]()
    # As in the standard library, names in annotations are those of the module.
    exec(code, getattr(sys.modules.get(cls.__module__), "__dict__", {}), found)  # noqa: S102 — names of fields
    made = found["made"](**scope)
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{one.name: one.type for one in dataclasses.fields(cls) if one.init}, "return": None}
    return made


def _comparisons(cls: Any) -> tuple[Any, Any]:
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    values: Any = operator.attrgetter(*names) if len(names) > 1 else lambda x: tuple(getattr(x, name) for name in names)

    def equal(self: object, other: object) -> bool:
        return bool(values(self) == values(other)) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return equal, hashed


def _refusals(cls: Any) -> tuple[Any, Any]:
    names = {one.name for one in dataclasses.fields(cls)}

    def refuse_to_set(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_to_delete(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return refuse_to_set, refuse_to_delete


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"
