"""Exact match and token F1: examples by hand, and properties over generated text."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tircli.answers import qa

WORDS = st.lists(
    st.sampled_from(
        ["the", "a", "An", "Paris", "paris", "1889", "3.5", "U.S.", "élan", "’s", "東京"]
    ),
    max_size=6,
).map(" ".join)


def squad(text: str) -> str:
    """SQuAD's normalisation, step by step."""
    text = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


@pytest.mark.parametrize(
    ("gold", "prediction", "em", "f1"),
    [
        ("The Eiffel Tower", "eiffel tower!", 1, 1),
        ("New York City", "York", 0, 1 / 2),  # P = 1, R = 1/3
        ("Paris, France", "paris", 0, 2 / 3),  # P = 1, R = 1/2
        ("a b c d", "b c x y z", 0, 1 / 2),  # gold b c d; P = 2/5, R = 2/3
        ("tick tick", "tick", 0, 2 / 3),  # repeated words count as often as they stand there
        ("1,000", "1000", 1, 1),
        ("1889", "1898", 0, 0),
        ("1914–1918", "1914-1918", 1, 1),
        ("O’Neill", "O'Neill", 1, 1),
        ("Cafe\u0301", "Café", 1, 1),
        ("２０２０", "2020", 1, 1),
        ("東京", "東京。", 1, 1),
        ("Beyoncé", "Beyonce", 0, 0),
        ("Queen", "the a an", 0, 0),
        ("Queen", "", 0, 0),
        ("Queen", None, 0, 0),
        ("Queen", "!!!", 0, 0),
    ],
)
def test_the_scores_of_a_pair(gold, prediction, em, f1):
    assert qa.em(gold, prediction) == em
    assert qa.f1(gold, prediction) == pytest.approx(f1)


@pytest.mark.parametrize("gold", ["yes", "no", "noanswer", "No."])
def test_a_closed_answer_matches_only_exactly(gold):
    assert qa.f1(gold, gold.upper()) == qa.em(gold, gold.upper()) == 1
    assert qa.f1(gold, f"{gold} it is") == qa.em(gold, f"{gold} it is") == 0
    assert qa.f1(f"{gold} it is", gold) == 0


@pytest.mark.parametrize(("gold", "prediction", "same"), [
    ("The", "the", True), ("The", "a", False), ("The", "The The", False), ("!!!", "!!!", True),
    ("!!!", "!!", False), ("A", "A", True), ("...", "", False), ("The Who", "who", True),
])  # fmt: skip
def test_a_gold_of_articles_or_punctuation_alone_is_compared_as_written(gold, prediction, same):
    assert qa.em(gold, prediction) == same


def test_the_best_gold_counts():
    assert qa.em(["Paris", "City of Light"], "city of light") == 1
    assert qa.f1(["x", "Paris, France"], "paris") == pytest.approx(2 / 3)
    assert qa.em([], "Paris") == qa.f1([], "Paris") == 0


@pytest.mark.parametrize("gold", ["", " ", "\n"])
def test_an_empty_gold_is_never_matched(gold):
    assert qa.em(gold, gold) == qa.f1(gold, gold) == qa.em(gold, "x") == qa.f1(gold, "x") == 0


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_ascii_text_is_normalised_as_squad_does(text):
    assert qa.normalise(text) == squad(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_what_is_normalised_holds_no_punctuation_and_single_spaces(text):
    once = qa.normalise(text)
    assert not set(once) & set(string.punctuation)
    assert once == " ".join(once.split())


@settings(max_examples=300, deadline=None)
@given(WORDS, WORDS)
def test_f1_is_symmetric_bounded_and_one_exactly_where_the_words_agree(gold, prediction):
    f1 = qa.f1(gold, prediction)
    assert 0 <= qa.em(gold, prediction) <= f1 <= 1
    left, right = qa.normalise(gold), qa.normalise(prediction)
    if left and right:
        assert f1 == qa.f1(prediction, gold)
        assert (f1 == 1) == (Counter(left.split()) == Counter(right.split()))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=4))
def test_more_golds_never_lower_a_score(prediction, golds):
    for scored in (qa.em, qa.f1):
        assert scored([*golds, "Paris"], prediction) >= scored(golds, prediction)
