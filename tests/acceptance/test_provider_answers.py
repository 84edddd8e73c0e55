"""A whole run on providers that answer what cannot be true, or what cannot be read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from harness.reporting.history.reading import load_run
from tests.acceptance.conftest import Project
from tests.acceptance.model_server import stream_of_call
from tests.unit.models.raw_server import raw_server, whole

SETTINGS = """
[tool.harness.models.{name}]
provider = "openai-compatible"
model = "m"
base_url = "{url}/{name}/v1"
retry = {{ initial = 0.05, jitter = 0 }}
price = {{ input = 1, output = 1 }}
{more}
[tool.harness.agents.by-{name}]
agent = "llm"
options = {{ model = "{name}" }}
"""
HUGE = b'{"prompt_tokens": 1000000000000000000000000000000, "completion_tokens": 1e300, "total_tokens": -1}'
TOLD = b'{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}'


def test_what_no_provider_may_say_ends_no_run(project: Project) -> None:
    asked: Counter[str] = Counter()
    done = b"".join(stream_of_call("done", "{}"))
    assert TOLD in done

    def answer(path: str) -> Iterable[bytes]:
        name = path.split("/")[1]
        asked[name] += 1
        if name == "huge":
            return [whole(done.replace(TOLD, HUGE), "text/event-stream")]
        return [whole(b"<html>Please log in</html>", "text/html")]

    with raw_server(answer) as server:
        file = project.path / "pyproject.toml"
        made = {"huge": "", "page": 'fallback = ["huge"]', "lone": ""}
        models = [SETTINGS.format(name=name, url=server.url, more=more) for name, more in made.items()]
        file.write_text(file.read_text("utf-8") + "".join(models), "utf-8")
        for name in made:
            project.task(name.upper(), steps=[], agent=f"by-{name}", success_criteria=["1 == 1"])
        run = project.run()
    run.assert_outcomes(passed=2, failed=1)
    assert "output failed" not in run.stdout.str()
    assert "INTERNALERROR" not in run.stdout.str() + run.stderr.str()
    report = project.report("LONE")
    assert report["code"] == "MODEL_GARBLED"
    assert "it answered 200 text/html: <html>Please log in</html>" in report["error_message"]
    assert asked == {"huge": 2, "page": 4, "lone": 4}, "retried as other failures of a provider, and no more"
    kept = load_run(project.path)
    assert {each.task_id: each.outcome for each in kept.executions} == {
        "HUGE": "passed", "PAGE": "passed", "LONE": "failed"
    }  # fmt: skip
    figures = json.loads((project.path / ".harness" / "metrics.json").read_text("utf-8"))["models"]
    assert figures["calls"] == 10
    assert 0 < figures["input_tokens"] < 10**6
