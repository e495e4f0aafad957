"""Ids against texts: missing ids made once, wrong ones refused, and the mask as people see it."""

from __future__ import annotations

import pytest

from tircli.records import RecordError, Segment, ToolUse, Trajectory
from tircli.train.audit import Audit, runs
from tircli.train.batch import Example, example

transformers = pytest.importorskip("transformers", reason="tokenizers need tircli[local]")
EOS, BOS = 256, 257


@pytest.fixture(scope="module")
def tokenizer():
    """Bytes, and two special tokens; BOS before every text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(t, special=True) for t in ("<eos>", "<bos>")])
    raw.post_processor = processors.TemplateProcessing("<bos> $A", None, [("<bos>", BOS)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<bos>", eos_token="<eos>"
    )


def ids_of(tokenizer, text: str) -> list[int]:
    how = {"add_special_tokens": False, "split_special_tokens": True}
    return list(tokenizer(text, **how)["input_ids"])


def trajectory(stop: str | None = "answer", **ids: list[int]) -> Trajectory:
    use = ToolUse("python", "1", "<eos>")
    segments = [
        Segment("prompt", "<bos>ask", ids.get("prompt")),
        Segment("model", "<python>1</python>", ids.get("call")),
        Segment("tool", "<eos>", ids.get("result"), tool=use),
        Segment("model", "done", ids.get("last")),
    ]
    return Trajectory("t", "t", "ask", stop=stop, segments=segments)


def test_missing_ids_are_made_segment_by_segment(tokenizer):
    audit = Audit(tokenizer)
    made = audit(trajectory())
    assert [s.token_ids for s in made.segments] == [
        [BOS, *ids_of(tokenizer, "ask")],
        ids_of(tokenizer, "<python>1</python>"),
        ids_of(tokenizer, "<eos>"),  # spelt out: a tool cannot end the text
        [*ids_of(tokenizer, "done"), EOS],
    ]
    assert audit.tokenised == 1


@pytest.mark.parametrize("stop, ends", [("answer", 1), ("eos", 1), ("length", 0), ("turns", 0)])
def test_only_a_text_that_the_model_ended_teaches_to_end(tokenizer, stop, ends):
    assert Audit(tokenizer)(trajectory(stop)).token_ids.count(EOS) == ends


def test_an_end_token_that_the_text_spells_is_one_token(tokenizer):
    record = trajectory("length")
    record.segments[-1].text = "done<eos>"
    assert Audit(tokenizer)(record).segments[-1].token_ids == [*ids_of(tokenizer, "done"), EOS]


def test_chat_turns_with_tool_messages_end_by_themselves(tokenizer):
    record = trajectory()
    record.made = {"protocol": "tools"}
    made = Audit(tokenizer)(record)
    assert [s.token_ids[-1] == EOS for s in made.segments] == [False, True, False, True]


def test_a_raw_prompt_gets_the_first_token_that_the_tokenizer_gives(tokenizer):
    record = trajectory()
    record.segments[0].text = "ask"
    assert Audit(tokenizer)(record).segments[0].token_ids == [BOS, *ids_of(tokenizer, "ask")]


def test_ids_that_are_there_stay_as_they_were_sampled(tokenizer):
    # Half a character: the two bytes of e-acute in two segments decode to nothing whole.
    first, second = ids_of(tokenizer, "\u00e9")
    record = trajectory(prompt=[BOS, 1], call=[first], result=[second], last=[EOS])
    texts = [tokenizer.decode([1]), "\ufffd", "\ufffd", ""]
    for segment, text in zip(record.segments, texts, strict=True):
        segment.text = text
    audit = Audit(tokenizer)
    assert audit(record).token_ids == [BOS, 1, first, second, EOS]
    assert audit.tokenised == 0


def test_ids_from_an_edit_on_are_made_and_the_others_kept(tokenizer):
    record = trajectory(prompt=[BOS, *ids_of(tokenizer, "ask")])
    audit = Audit(tokenizer)
    assert audit(record).segments[0].token_ids == [BOS, *ids_of(tokenizer, "ask")]
    assert audit.tokenised == 1 and None not in [s.token_ids for s in record.segments]


def test_text_that_the_ids_do_not_say_is_refused(tokenizer):
    record = trajectory(last=ids_of(tokenizer, "none"))
    with pytest.raises(RecordError, match=r'record "t": segments\[3\]: the ids say .none., .*done'):
        Audit(tokenizer)(record)


def test_ids_of_another_tokenizer_are_refused(tokenizer):
    with pytest.raises(RecordError, match=r"segments\[3\]: id 900, but .* has 258"):
        Audit(tokenizer)(trajectory(last=[900]))


@pytest.mark.parametrize(
    "stop, roles, what",
    [
        (None, 4, "unfinished"),
        ("error", 4, "ended in an error"),
        ("answer", 1, "wrote nothing"),
        (None, 0, "has not begun"),
    ],
)
def test_what_cannot_teach_is_refused(tokenizer, stop, roles, what):
    record = trajectory(stop)
    record.segments = record.segments[:roles]
    with pytest.raises(RecordError, match=what):
        Audit(tokenizer)(record)


def test_the_mask_is_shown_with_special_tokens_spelt_out(tokenizer):
    made = example(Audit(tokenizer)(trajectory()))
    assert list(runs(made, tokenizer)) == [
        ("<bos>ask", False),
        ("<python>1</python>", True),
        ("<eos>", False),
        ("done<eos>", True),
    ]


def test_what_could_steer_a_terminal_is_shown_as_an_escape(tokenizer):
    ids = ids_of(tokenizer, "a\x1b[31m\n\u00e9")
    assert list(runs(Example("t", ids, [True] * len(ids)), tokenizer)) == [
        ("a\\x1b[31m\n\u00e9", True)
    ]
