"""A model whose answers follow a script of names: it finds the refs in the prompt that it was sent."""

from __future__ import annotations

SOURCE = '''
import json
import re

from msgspec.structs import replace

from harness.agents.llm import LlmAgent
from harness.model.inference import ModelAnswer, ToolCall

PROMPTS = "prompts.txt"


class Brain:
    """Does the lines of its script in turn; how far it is, it reads in the history that it is told."""

    def __init__(self, script):
        self.script = [line for line in script.strip().splitlines()]

    async def ask(self, model, prompt):
        text = "\\n".join([prompt.instructions, *prompt.parts])
        with open(PROMPTS, "a") as file:
            file.write(text + "\\n=====\\n" + json.dumps([tool.name for tool in prompt.tools]) + "\\n=====\\n")
        history = re.findall(r"^\\d+\\. (.*)", prompt.parts[1], re.M)
        done = sum(line.endswith("-> passed") or "-> passed;" in line for line in history)
        told = sum("-> failed" in line for line in history)
        line = self.script[min(done + self.counts_failures * told, len(self.script) - 1)]
        return ModelAnswer(text="", calls=(self.call(line, prompt.parts[2]),), call=None)

    counts_failures = False

    def call(self, line, page):
        tool, _, rest = line.strip().partition(" ")
        arguments = dict(re.findall(r"(\\w+)=<([^>]*)>", rest))
        if "element" in arguments and "target" not in arguments:
            role, name = re.match(r'(\\w+) "(.*)"', arguments["element"]).groups()
            found = re.search(rf'- {role} "{re.escape(name)}".*?\\[ref=(\\w+)\\]', page)
            arguments["target"] = found[1] if found else "e0"
        if "values" in arguments:
            arguments["values"] = [arguments["values"]]
        return ToolCall(tool, arguments)
'''
