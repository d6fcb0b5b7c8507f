"""Drawings as DOT text."""

from __future__ import annotations

from xmml.graphs.dot import Cluster, Drawing, Edge, Html, Node, dot_text, escaped


def test_text_has_defaults_then_nodes_and_clusters_then_edges_then_the_last() -> None:
    inner = Cluster("a.b", {"label": "b"}, items=[Node("y")])
    outer = Cluster("", items=[Node("x", {"shape": "box"}), inner], edges=[Edge("x", "y")])
    drawing = Drawing({"rankdir": "LR"}, {"fontsize": "12"}, {}, outer, [Node("end"), Edge("y", "end")])
    assert dot_text(drawing) == (
        "digraph G {\n"
        '    graph[rankdir="LR"];\n'
        '    node[fontsize="12"];\n'
        '    "x"[shape="box"];\n'
        '    subgraph "cluster_a.b" {\n'
        '        label="b";\n'
        '        "y";\n'
        "    }\n"
        '    "x"->"y";\n'
        '    "end";\n'
        '    "y"->"end";\n'
        "}\n"
    )


def test_quotes_and_line_breaks_in_names_are_escaped() -> None:
    text = dot_text(Drawing({}, {}, {}, Cluster("", items=[Node('say "hi"\nthere')])))
    assert '"say \\"hi\\"\\nthere"' in text


def test_html_labels_are_written_between_angle_brackets() -> None:
    text = dot_text(Drawing({}, {}, {}, Cluster("", items=[Node("x", {"label": Html("<B>x</B>")})])))
    assert "label=<<B>x</B>>" in text


def test_text_in_html_labels_is_escaped() -> None:
    assert escaped('a<b> & "c"\x07') == "a&lt;b&gt; &amp; &quot;c&quot; "


def test_clusters_may_be_nested_deeper_than_python_calls() -> None:
    cluster = Cluster("0", items=[Node("x")])
    for depth in range(1, 5000):
        cluster = Cluster(str(depth), items=[cluster])
    assert dot_text(Drawing({}, {}, {}, Cluster("", items=[cluster]))).count("}") == 5001
