"""What our agent loop costs: microseconds a turn, memory a trajectory that waits, share with hf.

    python benchmarks/rollout_overhead.py [--hf]

The first two figures need no model: an engine that answers at once, 256 trajectories at once, on
one core. With `--hf` (needs torch) a tiny random llama answers: the share of the wall time that
passes outside the network's forward pass.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import time
import tracemalloc
from pathlib import Path

from tircli import protocols
from tircli.engines import Completion, Sampling
from tircli.records import Trajectory
from tircli.rollout import AgentLoop, Settings, run
from tircli.tools import ToolResult

CALL = f"<think>{'word ' * 30}</think><python>print(1)</python>"
END = f"<think>{'word ' * 30}</think><answer>\\boxed{{1}}</answer>"
TURNS = 5


class Instant:
    """An engine that answers at once; `hold` makes it wait for ever."""

    name = model = "instant"
    context = None

    def __init__(self, hold: asyncio.Event | None = None) -> None:
        self.hold = hold
        self.turns = {
            text: Completion(
                list(text.encode()),
                text,
                "stop",
                "</python>" if text is CALL else "</answer>",
                [-0.1] * len(text),
                [[-0.1]] * len(text),
            )
            for text in (CALL, END)
        }

    def render(self, prompt):
        return "prompt", [1] * 500

    def encode(self, text):
        return list(text.encode())

    def decode(self, ids):
        return bytes(ids).decode()

    async def generate(self, ids, sampling: Sampling) -> Completion:
        if self.hold is not None:
            await self.hold.wait()
        await asyncio.sleep(0)
        kept = self.turns[CALL if sampling.turn < TURNS - 1 else END]
        return Completion(
            list(kept.token_ids),
            kept.text,
            kept.finish,
            kept.stop,
            kept.logprobs,
            kept.top_logprobs,
        )

    async def aclose(self):
        pass


class Tool:
    async def run(self, source, session=None):
        return ToolResult("1")

    async def aclose(self):
        pass


def loop_with(engine) -> AgentLoop:
    tools = {"python": Tool()}
    return AgentLoop(engine, protocols.load("et"), tools, Settings(max_tokens=10**6), {})


def items(count: int):
    return (Trajectory(f"q{i}#0", f"q{i}", "?") for i in range(count))


async def drained(loop: AgentLoop, count: int, at_once: int) -> None:
    async for trajectory in run(items(count), loop, at_once):
        assert trajectory.stop == "answer"


def microseconds(count: int, at_once: int) -> float:
    """CPU time of one turn, the least of five rounds."""
    best = float("inf")
    for _ in range(5):
        loop = loop_with(Instant())
        start = time.process_time()
        asyncio.run(drained(loop, count, at_once))
        best = min(best, time.process_time() - start)
    return best / (count * TURNS) * 1e6


def kilobytes_waiting(count: int) -> float:
    """Memory of one trajectory that waits for its first turn, prompt of 500 tokens included."""

    async def wait() -> int:
        loop = loop_with(Instant(asyncio.Event()))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        task = asyncio.create_task(drained(loop, count, count))
        while loop.counts.running < count:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return held

    return asyncio.run(wait()) / count / 1024


def hf_share(count: int) -> tuple[float, float]:
    """`(share outside, tokens a second)` with a tiny random llama."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from tircli.engines.hf import HFEngine

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        raw.add_special_tokens(["<eos>"])
        made = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<eos>")
        made.save_pretrained(folder)
        config = transformers.LlamaConfig(
            vocab_size=len(made), hidden_size=256, intermediate_size=512, num_hidden_layers=4,
            num_attention_heads=4, max_position_embeddings=2048, eos_token_id=256,
        )  # fmt: skip
        transformers.LlamaForCausalLM(config).save_pretrained(Path(folder))
        engine = HFEngine(folder)
        inside, forward = 0.0, engine._net.forward

        def timed(*args, **inputs):
            nonlocal inside
            start = time.perf_counter()
            try:
                return forward(*args, **inputs)
            finally:
                inside += time.perf_counter() - start

        engine._net.forward = timed
        settings = Settings(max_tokens=200)
        loop = AgentLoop(engine, protocols.load("torl"), {"python": Tool()}, settings, {})

        async def all_of_them() -> float:
            start = time.perf_counter()
            async for _ in run(items(count), loop, 32):
                pass
            seconds = time.perf_counter() - start
            await engine.aclose()
            return seconds

        seconds = asyncio.run(all_of_them())
    return 1 - inside / seconds, loop.counts.tokens / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=2048)
    parser.add_argument("--hf", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(
        f"{options.count} trajectories of {TURNS} turns, {len(CALL)} tokens a turn, 256 at once: "
        f"{microseconds(options.count, 256):.0f} us a turn"
    )
    print(f"10,000 trajectories waiting: {kilobytes_waiting(10_000):.1f} KiB each")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory of the process: {peak >> 10} MiB")
    if options.hf:
        share, rate = hf_share(64)
        print(
            f"hf, tiny random llama (2.1 M parameters), batch 32: {share:.1%} of the wall time "
            f"outside the network, {rate:.0f} tokens/s"
        )


if __name__ == "__main__":
    main()
