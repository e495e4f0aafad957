"""A model's tokenizer and chat template, without torch; shared by the engines that have ids."""

from __future__ import annotations

import threading
from typing import Any

from tircli.engines import Message
from tircli.engines.folder import first_line, source
from tircli.records import InputError, MissingExtra, TurnError

try:
    from jinja2 import TemplateError
    from transformers import AutoTokenizer, GenerationConfig
except ImportError as _error:
    raise MissingExtra(f"token ids need {_error.name}; pip install 'tircli[local]'") from _error


class Tokens:
    """The words of `Engine` that need a tokenizer alone: render, render_turn, encode, decode."""

    def __init__(self, model: str) -> None:
        self.model = model
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(source(model))
        except (OSError, ValueError, KeyError, ImportError, TypeError) as error:
            remedy = "add its tokenizer.json and tokenizer_config.json"
            raise InputError(
                f"model {model}: its tokenizer does not load ({first_line(error)}); {remedy}"
            ) from error
        self.special = set(self.tokenizer.all_special_ids)
        self.ends = _ends(model) | {self.tokenizer.eos_token_id} - {None}
        """All ids that end a text, by the generation config and by the tokenizer."""
        self._lock = threading.Lock()  # fast tokenizers fail when two threads meet in one

    def render(self, prompt: str | list[Message]) -> tuple[str, list[int]]:
        """Text and ids of a raw prompt (ids with BOS where the tokenizer has one) or of a chat."""
        if not isinstance(prompt, str):
            text = self.template(prompt)
            return text, self._encode_chat(text, prompt)
        bos = self.tokenizer.bos_token_id
        with self._lock:
            first = self.tokenizer("x", add_special_tokens=True)["input_ids"][0]
        return prompt, [bos] * (bos is not None and first == bos) + self.encode(prompt)

    def render_turn(self, messages: list[Message]) -> list[tuple[str, list[int]]]:
        """What a chat appends for each of `messages`; the model has written its end itself."""
        mark = "a model turn"
        dummy = [{"role": "user", "content": "x"}, {"role": "assistant", "content": mark}]
        _, found, text = self.template([*dummy, *messages]).partition(mark)
        if not found:
            raise InputError(f"model {self.model}: its chat template drops assistant turns")
        for end in sorted(self.ends):
            text = text.removeprefix(self.tokenizer.convert_ids_to_tokens(end))
        parts = []
        for message in messages[:-1]:
            content = str(message["content"]).strip()
            at = text.find(content) + len(content)
            parts.append(text[:at])
            text = text[at:]
        parts.append(text)
        pairs = zip(parts, messages, strict=True)
        return [(part, self._encode_chat(part, [message])) for part, message in pairs]

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no BOS, special tokens spelt out."""
        return self._encode(text, plain=True)

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens, as in `Completion.text`."""
        how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        with self._lock:
            return str(self.tokenizer.decode(ids, **how))

    def template(self, chat: list[Message]) -> str:
        """The chat as text, opened for a model turn. Raises InputError."""
        if not self.tokenizer.chat_template:
            remedy = "use a raw-prompt protocol or a chat model"
            raise InputError(f"model {self.model} has no chat template; {remedy}")
        how = {"tokenize": False, "add_generation_prompt": True}
        try:
            return str(self.tokenizer.apply_chat_template(chat, **how))
        except TemplateError as error:
            roles = ", ".join(dict.fromkeys(str(message["role"]) for message in chat))
            raise InputError(
                f"model {self.model}: its chat template refuses messages of {roles} "
                f"({first_line(error)}); choose another --protocol"
            ) from error

    def _encode(self, text: str, *, plain: bool) -> list[int]:
        how = {"add_special_tokens": False, "split_special_tokens": plain}
        with self._lock:
            return list(self.tokenizer(text, **how)["input_ids"])

    def _encode_chat(self, text: str, messages: list[Message]) -> list[int]:
        """Ids of a rendered chat; special tokens that a content spells are not acted on."""
        contents = [str(message.get("content") or "").strip() for message in messages]
        special = self.tokenizer.all_special_tokens
        if not any(token in content for content in contents for token in special):
            return self._encode(text, plain=False)
        ids: list[int] = []
        for content in contents:
            markup, found, text = text.partition(content) if content else ("", "x", text)
            if not found:
                why = "its chat template rewrites a message that spells a special token"
                raise TurnError(f"model {self.model}: {why}")
            ids += self._encode(markup, plain=False) + self._encode(content, plain=True)
        return ids + self._encode(text, plain=False)


def _ends(model: str) -> set[int]:
    try:
        ends = GenerationConfig.from_pretrained(source(model)).eos_token_id
    except OSError:  # A folder need not have one.
        ends = None
    return {end for end in (ends if isinstance(ends, list) else [ends]) if end is not None}
