"""Ids against texts before training: missing ids made once, segment by segment; the rest checked.

`tokenizer` is a transformers tokenizer; nothing here imports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tircli import protocols
from tircli.records import RecordError, Segment, Trajectory
from tircli.train.batch import Example


class Audit:
    """Makes records ready for training with one tokenizer; counts those that it tokenised."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.tokenised = 0
        """Records of which at least one segment had no ids."""
        self._chats: dict[str, bool] = {}

    def __call__(self, trajectory: Trajectory) -> Trajectory:
        """`trajectory`, all segments with ids that say what the texts say. Raises RecordError."""
        place = f'record "{trajectory.id}"'
        if trajectory.stop is None or not trajectory.segments:
            state = "has not begun" if not trajectory.segments else "is unfinished"
            raise RecordError(f"{place}: {state}; run tir rollout on it first")
        if trajectory.stop == "error":
            raise RecordError(f"{place}: ended in an error; redo it with tir rollout --resume")
        if not any(s.role == "model" and (s.text or s.token_ids) for s in trajectory.segments):
            raise RecordError(f"{place}: the model wrote nothing; there is nothing to learn")
        missing = [i for i, s in enumerate(trajectory.segments) if s.token_ids is None]
        for i, segment in enumerate(trajectory.segments):
            if i not in missing:
                self._check(segment, f"{place}: segments[{i}]")
        for i in missing:
            trajectory.segments[i].token_ids = self._encode(trajectory, i)
        self.tokenised += bool(missing)
        return trajectory

    def _check(self, segment: Segment, place: str) -> None:
        ids = segment.token_ids or []
        size = len(self.tokenizer)
        if max(ids, default=0) >= size:
            raise RecordError(
                f"{place}: id {max(ids)}, but the model's tokenizer has {size}; "
                "name the model that made the ids, or drop token_ids to have the text tokenised"
            )
        told = [self._decode(ids, skip) for skip in (True, False)]
        # Half a character at a border, or a decoder's own blanks, are no disagreement.
        if segment.text not in told and _folded(segment.text) not in map(_folded, told):
            raise RecordError(
                f"{place}: the ids say {told[1]!r:.60}, the text says {segment.text!r:.60}; "
                "name the model that made the ids, or drop token_ids to have the text tokenised"
            )

    def _decode(self, ids: list[int], skip: bool) -> str:
        how = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(ids, **how))

    def _encode(self, trajectory: Trajectory, index: int) -> list[int]:
        """Ids of one segment's text, as a rollout would have appended them."""
        segment = trajectory.segments[index]
        if segment.role == "prompt":
            ids = self._ids(segment.text, plain=False)
            first = self.tokenizer("x", add_special_tokens=True)["input_ids"][0]
            bos = self.tokenizer.bos_token_id
            return ids if bos is None or first != bos or ids[:1] == [bos] else [bos, *ids]
        end = self.tokenizer.eos_token or ""
        if segment.role != "model" or not end:
            return self._ids(segment.text, plain=True)
        written = segment.text.removesuffix(end)
        ids = self._ids(written, plain=True)
        ends = written != segment.text or self._turn_ends(trajectory, index)
        return [*ids, self.tokenizer.eos_token_id] if ends else ids

    def _turn_ends(self, trajectory: Trajectory, index: int) -> bool:
        """True if the model ended its turn itself here: what teaches it to stop."""
        if index == len(trajectory.segments) - 1:
            return trajectory.stop in ("answer", "eos")
        name = (trajectory.made or {}).get("protocol")
        if not isinstance(name, str) or trajectory.segments[index + 1].role != "tool":
            return False
        if name not in self._chats:
            self._chats[name] = protocols.load(name).tool_message
        return self._chats[name]

    def _ids(self, text: str, *, plain: bool) -> list[int]:
        how = {"add_special_tokens": False, "split_special_tokens": plain}
        return list(self.tokenizer(text, **how)["input_ids"])


def _folded(text: str) -> str:
    return re.sub(r"[\s\ufffd]+", "", text)


def runs(example: Example, tokenizer: Any) -> Iterator[tuple[str, bool]]:
    """`(text, trained)` for each stretch of tokens of one kind, special tokens spelt out.

    Characters that could steer a terminal are shown as escapes.
    """
    start = 0
    for end in range(1, len(example.ids) + 1):
        if end < len(example.ids) and example.trained[end] == example.trained[start]:
            continue
        how = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        text = str(tokenizer.decode(example.ids[start:end], **how))
        yield re.sub(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]", _escape, text), example.trained[start]
        start = end


def _escape(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"
