"""Which cells of two columns differ. Floats are compared by their bits, with all NaNs equal, or with a tolerance.

Pure. INVARIANT: `differs` and `as_bits` have one notion of equality: −0.0 differs from 0.0, NaN equals NaN, null equals
null, also within structs, lists and maps. Maps are equal if their entries are equal in their order.

No Python number or bool goes to Arrow here, because that would import pandas (`plain`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from .kernels import pc
from .plain import int64_array, int64_scalar

_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
_NAN_BITS = {pa.float64(): 0x7FF8000000000000, pa.float32(): 0x7FC00000}


def differs(before: pa.Array, after: pa.Array, tolerance: float | None = None) -> pa.BooleanArray:
    """Return in which places two columns of one type and length differ.

    With `tolerance`, floats differ if their distance is greater than that.

    >>> import pyarrow as pa
    >>> before, after = pa.array([1.0, 0.0, None, float("nan")]), pa.array([1.5, -0.0, None, float("nan")])
    >>> differs(before, after).to_pylist(), differs(before, after, tolerance=0.5).to_pylist()
    ([True, True, False, False], [False, False, False, False])
    """
    if pt.is_null(before.type):
        return before.is_valid()
    both = pc.and_(before.is_valid(), after.is_valid())
    one = pc.xor(before.is_valid(), after.is_valid())
    return pc.or_(one, pc.and_kleene(both, _unequal(before, after, tolerance)))


def as_bits(column: pa.Array) -> pa.Array:
    """Return a column whose values are equal exactly if those of `column` are: floats become integers, maps lists."""
    kind = column.type
    if kind in _BITS:
        nan = int64_scalar(_NAN_BITS[kind]).cast(_BITS[kind])
        return pc.if_else(pc.is_nan(column), nan, column.view(_BITS[kind]))
    if pt.is_map(kind):
        return as_bits(_as_list(column))
    if pt.is_struct(kind) and kind.num_fields:
        parts = [as_bits(part) for part in column.flatten()]
        names = [kind.field(number).name for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, names, mask=column.is_null())
    if pt.is_list(kind):
        items = as_bits(column.flatten())
        return pa.ListArray.from_arrays(_offsets(column), items, mask=column.is_null())
    return column


def _unequal(before: pa.Array, after: pa.Array, tolerance: float | None) -> pa.Array:
    """Return where two columns differ. Places with a null may have any value."""
    kind = before.type
    if kind in _BITS:
        return _unequal_floats(before, after, tolerance)
    if pt.is_map(kind):
        return _unequal_lists(_as_list(before), _as_list(after), tolerance)
    if pt.is_list(kind):
        return _unequal_lists(before, after, tolerance)
    if pt.is_struct(kind):
        found = pc.invert(pa.nulls(len(before)).is_null())
        for one, other in zip(before.flatten(), after.flatten(), strict=True):
            found = pc.or_(found, differs(one, other, tolerance))
        return found
    return pc.not_equal(before, after)


def _unequal_floats(before: pa.Array, after: pa.Array, tolerance: float | None) -> pa.Array:
    both_nan = pc.and_(pc.is_nan(before), pc.is_nan(after))
    if tolerance is None:
        other = pc.not_equal(before.view(_BITS[before.type]), after.view(_BITS[before.type]))
    else:
        distance = pc.abs(pc.subtract(before.cast(pa.float64()), after.cast(pa.float64())))
        near = pc.or_(pc.less_equal(distance, tolerance), pc.equal(before, after))  # infinities have no distance
        other = pc.invert(near)
    return pc.and_(other, pc.invert(both_nan))


def _unequal_lists(before: pa.Array, after: pa.Array, tolerance: float | None) -> pa.Array:
    both = pc.and_(before.is_valid(), after.is_valid())
    same_length = pc.and_kleene(both, pc.equal(pc.list_value_length(before), pc.list_value_length(after)))
    places = pc.indices_nonzero(same_length)
    before, after = before.filter(same_length), after.filter(same_length)
    items = differs(before.flatten(), after.flatten(), tolerance)
    unequal = places.take(pc.unique(pc.list_parent_indices(before).filter(items)))
    every = pc.indices_nonzero(pa.nulls(len(same_length)).is_null())
    return pc.or_(pc.invert(same_length), pc.is_in(every, value_set=unequal))


def _as_list(column: pa.Array) -> pa.Array:
    kind = column.type
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    return column.cast(pa.list_(entry))


def _offsets(column: pa.Array) -> pa.Array:
    """Return where each list begins among the items that `flatten` returns, and where the last one ends."""
    lengths = pc.if_else(column.is_valid(), pc.list_value_length(column), int64_scalar(0).cast(pa.int32()))
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.concat_arrays([int64_array([0]).cast(pa.int32()), ends])
