"""Protocols: what is a call, what is an answer, and what only looks like one."""

from __future__ import annotations

import pytest

from tircli import protocols, templates
from tircli.protocols import Answer
from tircli.records import InputError, Segment, Trajectory

FENCED = "```python\nfence = '''\n```text\nhi\n```\n'''\nprint(fence)\n```"


def calls(name, text):
    found = protocols.load(name).parse(text)
    return found if isinstance(found, Answer) else [(call.tool, call.source) for call in found]


def test_all_seven_protocols_ship():
    assert set(templates.names("protocols")) == set(
        ["et", "torl", "verltool", "simpletir", "retool", "search-r1", "tools"]
    )


@pytest.mark.parametrize(
    ("protocol", "text", "found"),
    [
        ("et", "<think>x</think><python>1+1</python>", [("python", "1+1")]),
        ("et", "<think>the <search> tag</think><search>Arbel</search>", [("search", "Arbel")]),
        ("et", "<think>a <python>1</python> b", []),
        ("et", "<python>1+1", []),
        (
            "et",
            "<python>s = '</python>'\nprint(s)</python>",
            [("python", "s = '</python>'\nprint(s)")],
        ),
        ("et", "<python>print('</python>", []),
        ("et", "<python># don't\n1</python>", [("python", "# don't\n1")]),
        ("et", "<python>1</python><python>2</python>", [("python", "1")]),
        ("et", "<python>  </python>", []),
        ("search-r1", "<search> moon </search>", [("search", "moon")]),
        ("torl", "```python\n1\n```\nand\n```python\n2\n```\n```output", [("python", "2")]),
        ("verltool", FENCED + "\n```output", [("python", FENCED[10:-4])]),
        ("simpletir", "```py\n1\n```\n```\n2\n```", [("python", "1")]),
        ("retool", "<code>\n```python\n1\n```\n</code>", [("python", "1")]),
        ("retool", "<code>1</code>", [("python", "1")]),
    ],
)
def test_calls_are_found_where_they_are(protocol, text, found):
    assert calls(protocol, text) == found


def test_a_call_after_the_answer_is_none():
    assert calls("et", "<answer>4</answer><search>2+2</search>") == Answer(18)


def test_several_tool_calls_of_one_turn_keep_their_own_faults():
    text = (
        '<tool_call>{"name":"search","arguments":"{\\"query\\": \\"t\\""}</tool_call>'
        '<tool_call>{"name":"search","arguments":"{\\"query\\": \\"moon\\"}"}</tool_call>'
        '<tool_call>{"name":"code_interpreter","arguments":{"path":1}}</tool_call>'
    )
    first, second, third = protocols.load("tools").parse(text)
    assert "no valid JSON" in first.problem and third.problem and third.tool == "python"
    assert (second.tool, second.source, second.problem) == ("search", "moon", None)


@pytest.mark.parametrize(
    ("protocol", "text", "prediction"),
    [
        ("et", "<answer>so \\boxed{\\frac{1}{2}}</answer>", ("\\frac{1}{2}", None)),
        ("et", "<answer> Paris </answer>", ("Paris", None)),
        ("et", "<answer></answer>", (None, None)),
        ("et", "\\boxed{4}", (None, None)),
        ("torl", "\\boxed{17} wait \\boxed{", (None, "unterminated_box")),
        ("torl", "\\boxed{007} check \\boxed{\\text{007}}", ("007", None)),
        ("torl", "\\boxed{\\{1,2\\}}", ("\\{1,2\\}", None)),
        ("tools", "It is Paris.", ("It is Paris.", None)),
        ("et", "<think><answer>\\boxed{3}</answer></think>", (None, None)),
        ("et", "<python>print('<answer>3</answer>')</python>", (None, None)),
        ("torl", "\\boxed{4}\n```python\nprint(r'\\boxed{5}')\n```\n", ("4", None)),
    ],
)
def test_predictions(protocol, text, prediction):
    assert protocols.load(protocol).predict(text) == prediction


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("<think>a</think><answer>\\boxed{1}</answer>", []),
        ("<answer>\\boxed{1}</answer>", ["no_think_first", "no_think"]),
        ("<think>a</think>", ["no_answer"]),
        ("<think>a</think><answer>1</answer>", ["no_single_box"]),
        ("<think>a</think><answer>\\boxed{1}</answer> so", ["text_after_answer"]),
        ("<think>a</think><python>1<answer>\\boxed{1}</answer>", ["unclosed_call"]),
        ("<think>a</think><result>5</result><answer>\\boxed{1}</answer>", ["self_written_result"]),
        ("<think>use <search>, not <result></think><answer>\\boxed{1}</answer>", []),
        ("<think><answer>\\boxed{1}</answer></think>", ["no_answer"]),
        (
            "<think>a</think><python>1</python><answer>\\boxed{1}</answer>",
            ["call_without_result"],
        ),
    ],
)
def test_each_breach_of_the_form_has_a_name(text, names):
    trajectory = Trajectory("a", "a", "?", segments=[Segment("model", text)])
    assert protocols.load("et").violations(trajectory) == names


def test_an_observation_is_inserted_as_it_is():
    assert protocols.load("et").wrap("{{output}} </result>") == (
        "<result>\n{{output}} </result>\n</result>"
    )


def test_a_file_of_the_users_own_works_and_a_bad_one_is_named(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\n[prompt]\nkind = "raw"\nuser = "Q: {{question}}"\n[[calls]]\n'
        'tool = "python"\nopen = "<run>"\nclose = "</run>"\n'
    )
    assert protocols.load(str(own)).parse("<run>1</run>")[0].source == "1"
    own.write_text("nme = 3\n")
    with pytest.raises(InputError, match=r"templates/protocols/et\.toml"):
        protocols.load(str(own))
    with pytest.raises(InputError, match="choose one of et, retool"):
        protocols.load("nope")
