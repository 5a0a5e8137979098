"""Keep totals by account with `apply_batch`: one call for all keys of a batch, on whole Arrow columns.

Prints:

    batch 0: [('alice', 7.5), ('bob', 1.0)]
    batch 1: [('alice', 10.0)]
    state: {'alice': Row(total=10.0), 'bob': Row(total=1.0)}
"""

import pyarrow as pa

import tidemill as tm


def add(rows, state, context):
    fresh = rows.select(["account", "amount"]).rename_columns(["account", "total"])
    both = pa.concat_tables([state, fresh])
    totals = both.group_by("account").aggregate([("total", "sum")]).rename_columns(["account", "total"])
    return totals, totals


p = tm.Pipeline("accounts")
payments = p.read(tm.Rows("account string, amount double"))
payments.groupBy("account").apply_batch(add, stateSchema="total double", outputSchema="account string, total double")

if __name__ == "__main__":
    t = tm.testing.Tester(p)
    print("batch 0:", sorted(t.batch([("alice", 5.0), ("bob", 1.0), ("alice", 2.5)]).outputs))
    result = t.batch([("alice", 2.5)])
    print("batch 1:", result.outputs)
    print("state:", dict(sorted(result.state.items())))
