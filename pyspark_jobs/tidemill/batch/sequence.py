"""`_seq`: the place of an output row in the canonical order of its batch, as a number that no cut of the tasks changes.

From the highest bit: the pass (1 bit), the group (20 bits), and the row's place among those of its group (32 bits). A
group holds the keys whose hashes begin with the same 20 bits. INVARIANT: key ranges never cut a group, so one task sees
all rows of a group. A number is below 2**53, so JSON readers keep all its digits.
"""

from __future__ import annotations

import pyarrow as pa

from ..schema import int64_array, int64_scalar
from ..schema.kernels import call

GROUP_BITS, PLACE_BITS = 20, 32
_HASH_BITS = 64


def group_of(key_hash: int) -> int:
    """Return the group of a hash."""
    return key_hash >> (_HASH_BITS - GROUP_BITS)


def groups_of(order: pa.Array) -> pa.Array:
    """Return the groups in the order numbers of `_native.Operator.take_order`."""
    return call("shift_right", order, int64_scalar(PLACE_BITS))


def sequence(groups: pa.Array, pass_number: int) -> pa.Array:
    """Return `_seq` of rows, of which there is at least one, that are sorted by group."""
    count = len(groups)
    row = call("subtract", call("cumulative_sum", pa.repeat(int64_scalar(1), count)), int64_scalar(1))
    before = pa.concat_arrays([int64_array([-1]), groups.slice(0, count - 1)])
    begins = call("if_else", call("not_equal", groups, before), row, int64_scalar(0))
    place = call("subtract", row, call("cumulative_max", begins))
    above = pass_number << (GROUP_BITS + PLACE_BITS)
    return call("add", call("add", call("shift_left", groups, int64_scalar(PLACE_BITS)), place), int64_scalar(above))
