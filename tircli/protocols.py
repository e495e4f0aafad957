"""How a model writes calls and answers (SPEC 1): parse a turn, wrap a result, name violations.

A protocol is data: a TOML file under templates/protocols/, or the user's own by path.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tircli import templates
from tircli.records import InputError, Json, ToolUse, Trajectory
from tircli.tools import View
from tircli.tools.search import View as SearchView

_THOUGHT = r"<think>.*?(?:</think>|\Z)"
"""What a model thinks: a tag that is mentioned there is no call and no answer."""


@dataclass(frozen=True)
class Call:
    """A complete call in a turn's text."""

    tool: str
    source: str
    start: int
    end: int
    """`text[start:end]` is the call with its tags or fences."""
    problem: str | None = None
    """Why it cannot run (arguments that are no JSON, say); shown to the model instead."""


@dataclass(frozen=True)
class Answer:
    """The model gave its answer."""

    end: int
    """Where the text that counts ends."""


@dataclass(frozen=True)
class Protocol:
    """One family's way of writing, as its file says it."""

    name: str
    prompt: Json
    """`kind` (`raw` or `chat`), `user`, optionally `system`, with `{{question}}`."""
    calls: tuple[Json, ...]
    """Detectors: `tool`, `open`, `close`, optionally `fence` (code in a fenced block inside)."""
    stops: tuple[str, ...] = ()
    keep_stop: bool = True
    """False: the stop string is the protocol's own and is cut from the turn."""
    which: str = "first"
    """The block of a turn that runs: `first` or `last`."""
    wrapper: str = "{{output}}"
    tool_message: bool = False
    """True: a result is a chat message of role `tool`."""
    answer: tuple[str, ...] = ("boxed",)
    """Extractors in order: `answer` (tag), `boxed`, `text` (the last turn)."""
    printed: str = ""
    """A program that holds this text and prints a box gives the answer (`final_answer(`)."""
    limits: Json = field(default_factory=dict)
    """Executed calls by tool and in `calls`; `turns`; `turn_tokens`."""
    limit_text: str = "The limit of calls is reached. Give the answer now."
    functions: tuple[Json, ...] = ()
    """For chat servers: `tool`, and the function as they want it described."""
    python: View = field(default_factory=View)
    search: SearchView = field(default_factory=SearchView)

    def parse(self, text: str) -> list[Call] | Answer:
        """The calls of a turn, or its answer; an empty list if it holds neither."""
        visible = _blank(text, _THOUGHT)
        answered = re.search(r"<answer>.*?</answer>", visible, re.S)
        stop_at = answered.start() if answered and "answer" in self.answer else len(text)
        found = [call for detector in self.calls for call in _detect(detector, text, visible)]
        found = sorted((call for call in found if call.start < stop_at), key=lambda c: c.start)
        if found and not self.tool_message:
            return [found[0 if self.which == "first" else -1]]
        if found:
            return found
        return Answer(answered.end()) if answered and stop_at < len(text) else []

    def finished(self, text: str) -> bool:
        """True if a turn without call, ended by the model, is an answer."""
        return self.predict(text)[0] is not None

    def predict(self, text: str) -> tuple[str | None, str | None]:
        """`(prediction, flag)` from the text that the model wrote.

        The last box counts; one that never closes gives `(None, "unterminated_box")`.
        """
        text = self._blank_calls(text)
        for kind in self.answer:
            body: str | None = text
            if kind == "answer":
                bodies = re.findall(r"<answer>(.*?)</answer>", _blank(text, _THOUGHT), re.S)
                body = bodies[-1] if bodies else None
                if body is not None and "\\boxed" not in body:
                    return _clean(body) or None, None
            if kind == "text":
                return _clean(text) or None, None
            if body is not None and "\\boxed" in body:
                return last_boxed(body)
        return None, None

    def printed_answer(self, use: ToolUse) -> str | None:
        """The answer that a program printed, where the protocol takes it from there."""
        if not self.printed or self.printed not in use.input or use.status != "ok":
            return None
        return last_boxed(use.output)[0] if "\\boxed" in use.output else None

    def _blank_calls(self, text: str) -> str:
        """`text` without its calls: a box or a tag in a program's string is no answer."""
        visible = _blank(text, _THOUGHT)
        for detector in self.calls:
            for call in _detect(detector, text, visible):
                text = text[: call.start] + " " * (call.end - call.start) + text[call.end :]
        return text

    def hidden_stop(self, text: str, stops: tuple[str, ...]) -> str | None:
        """The stop string that ended `text`, where a server tells neither it nor its name.

        It is the one that completes a call or an answer, or that follows a whole call.
        """
        whole = bool(self.parse(text))
        closes = {"</answer>", *(detector["close"] for detector in self.calls)}
        for stop in stops:
            if stop not in text and (stop not in closes if whole else self.parse(text + stop)):
                return stop
        return None

    def wrap(self, output: str) -> str:
        """`output` as it is inserted after the call."""
        return templates.fill(self.wrapper, output=output)

    def violations(self, trajectory: Trajectory) -> list[str]:
        """The names of all breaches of the form (SPEC 2.5); empty = well formed."""
        text = "".join(_blank(s.text, _THOUGHT) for s in trajectory.segments if s.role == "model")
        plain = self._blank_calls(text)
        names = []
        if self.name == "et":
            names += _think_violations(trajectory.model_text) + _answer_violations(plain)
        elif trajectory.prediction is None:
            names.append("no_answer")
        tags = [detector for detector in self.calls if detector["open"].startswith("<")]
        if any(detector[end] in plain for detector in tags for end in ("open", "close")):
            names.append("unclosed_call")
        if not self._answered_calls(trajectory):
            names.append("call_without_result")
        if re.search(r"<result>|<information>|<interpreter>|```output\n", plain):
            names.append("self_written_result")
        return names

    def _answered_calls(self, trajectory: Trajectory) -> bool:
        """True if each turn's calls, but for those after the answer, have their results."""
        segments = trajectory.segments
        for i, segment in enumerate(segments):
            found = self.parse(segment.text) if segment.role == "model" else []
            results = itertools.takewhile(lambda s: s.role == "tool", segments[i + 1 :])
            if isinstance(found, list) and len(found) > sum(1 for _ in results):
                return False
        return True


def _think_violations(text: str) -> list[str]:
    names = [] if text.lstrip().startswith("<think>") else ["no_think_first"]
    if text.count("<think>") != text.count("</think>"):
        names.append("unbalanced_think")
    if "<think>" not in text:
        names.append("no_think")
    return names


def _answer_violations(text: str) -> list[str]:
    """Breaches of: one answer, at the end, with one box and no other tag in it."""
    answers = re.findall(r"<answer>(.*?)</answer>", text, re.S)
    if len(answers) != 1:
        return ["several_answers" if answers else "no_answer"]
    names = [] if text.rstrip().endswith("</answer>") else ["text_after_answer"]
    if answers[0].count("\\boxed{") != 1:
        names.append("no_single_box")
    if re.search(r"</?(think|python|search|result|answer)>", answers[0]):
        names.append("tag_in_answer")
    return names


def load(name: str) -> Protocol:
    """The protocol of a shipped `name` or of a TOML path. Raises InputError."""
    data = dict(templates.load("protocols", name))
    view, search = data.pop("python", {}), data.pop("search", {})
    try:
        values: Json = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        protocol = Protocol(python=View(**view), search=SearchView(**search), **values)
    except TypeError as error:
        raise InputError(f"protocol {name}: {error}; see templates/protocols/et.toml") from None
    if protocol.prompt.get("kind") not in ("raw", "chat") or "user" not in protocol.prompt:
        raise InputError(f"protocol {name}: prompt needs kind = raw or chat, and user")
    return protocol


def messages(
    protocol: Protocol, question: str, *, native: bool = False
) -> str | list[dict[str, Any]]:
    """The prompt for `question`: text for a raw protocol, chat messages else.

    `native`: the server tells the model itself how to call functions.
    """
    user = templates.fill(protocol.prompt["user"], question=question)
    if protocol.prompt["kind"] == "raw":
        return user
    system = protocol.prompt.get("native_system" if native else "system")
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}]


def last_boxed(text: str) -> tuple[str | None, str | None]:
    r"""The content of the last `\boxed{}` with matched braces, or None and a flag."""
    at = text.rfind("\\boxed")
    opened = text[at + 6 :].lstrip()
    if not opened.startswith("{"):
        return (_clean(opened.split("\n")[0]) or None), None
    depth = 0
    for i, char in enumerate(opened):
        escaped = i > 0 and opened[i - 1] == "\\"
        depth += 0 if escaped else (char == "{") - (char == "}")
        if depth == 0:
            return (_clean(opened[1:i]) or None), None
    return None, "unterminated_box"


def _clean(text: str) -> str:
    r"""`text` without the spaces, dollars and one `\text{}` or `\mathrm{}` around the whole."""
    text = text.strip().strip("$").strip()
    whole = re.fullmatch(r"\\(?:text|mathrm)\{([^{}]*)\}", text)
    return whole[1].strip() if whole else text


def _blank(text: str, pattern: str) -> str:
    """`text` with matches replaced by spaces, so that positions stay."""
    return re.sub(pattern, lambda found: " " * len(found[0]), text, flags=re.S)


def _detect(detector: Json, text: str, visible: str) -> list[Call]:
    """All complete calls of one detector; its tags count only where `visible` shows them."""
    calls: list[Call] = []
    opening = re.compile(detector["open"] if detector.get("regex") else re.escape(detector["open"]))
    at = 0
    while found := opening.search(visible, at):
        body_start = found.end()
        end = _close(detector, text, body_start)
        if end is None:
            break
        body = text[body_start:end]
        stop = end + len(detector["close"])
        call = _call(detector, body, found.start(), stop)
        if call is not None:
            calls.append(call)
        at = stop
    return calls


def _close(detector: Json, text: str, start: int) -> int | None:
    """Where the body ends: the first closing that no string literal of the code holds."""
    close, end = detector["close"], start
    while (end := text.find(close, end)) >= 0:
        if detector["tool"] != "python" or detector.get("json") or not _in_string(text[start:end]):
            return end
        end += len(close)
    return None


def _in_string(code: str) -> bool:
    """True if `code` ends inside a string literal."""
    quote, i = "", 0
    while i < len(code):
        if quote:
            if code[i] == "\\":
                i += 1
            elif code.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
            elif code[i] == "\n" and len(quote) == 1:
                quote = ""
        elif code[i] == "#":
            i = code.find("\n", i)
            if i < 0:
                return False
        elif code[i] in "\"'":
            quote = code[i : i + 3] if code[i : i + 3] in ('"""', "'''") else code[i]
            i += len(quote) - 1
        i += 1
    return bool(quote)


def _call(detector: Json, body: str, start: int, end: int) -> Call | None:
    tool = detector["tool"]
    if detector.get("json"):
        return _json_call(body, start, end)
    if detector.get("fence"):
        inner = re.search(r"```(?:python|py)?\n(.*?)(?:\n```|\Z)", body, re.S)
        body = inner[1] if inner else body
    body = body.strip("\n") if tool == "python" else body.strip()
    return Call(tool, body, start, end) if body.strip() else None


class _Arguments(msgspec.Struct):
    name: str
    arguments: Any = None


def _json_call(body: str, start: int, end: int) -> Call:
    """A hermes call `{"name", "arguments"}`; a bad one carries its problem."""
    try:
        request = msgspec.json.decode(body.strip(), type=_Arguments)
        arguments = request.arguments
        if isinstance(arguments, str):
            arguments = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return Call("?", body, start, end, f"Error: the call is no valid JSON ({error}).")
    tool = {"code_interpreter": "python"}.get(request.name, request.name)
    values = arguments if isinstance(arguments, dict) else {}
    source = values.get("code" if tool == "python" else "query")
    if not isinstance(source, str):
        want = "code" if tool == "python" else "query"
        return Call(tool, body, start, end, f'Error: the call needs a string argument "{want}".')
    fenced = re.fullmatch(r"\s*```(?:python|py)?\n(.*?)\n?```\s*", source, re.S)
    return Call(tool, fenced[1] if fenced else source, start, end)
