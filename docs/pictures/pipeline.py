"""The graph of the README's pipeline."""

from picture import Picture


def draw() -> Picture:
    """The picture."""
    p = Picture(860, 268, "The graph of the pipeline `retail`")
    p.box(16, 92, 118, 84, "Source\ntm.Files\none file a day", "store")
    p.arrow([(134, 134), (164, 134)])
    p.box(166, 92, 150, 84, "Stateless steps\n.sql\n.withWatermark", "plain")
    for y, key, name, method, state, sink, file in (
        (16, "CustomerID", "spend", "mapWithState", "total", "tm.Parquet", "customer-spend/"),
        (156, "Country", "by-country", "agg", "orders, units", "tm.Json", "by-country/"),
    ):
        middle = y + 48
        p.line([(316, 134), (336, 134), (336, middle)])
        p.arrow([(336, middle), (454, middle)])
        p.text(342, middle - 8, f"by {key}", size=13, soft=True)
        p.box(456, y, 222, 96, f"Operator {name}\n{method}\nstate: {state}", "spark", size=14)
        p.arrow([(678, middle), (712, middle)])
        p.box(714, y + 10, 130, 76, f"Sink\n{sink}\n{file}", "store")
    return p
