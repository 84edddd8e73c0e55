"""A model that follows a script of names, as the module `brain` of a project: it has no provider and no network.

It finds the refs in the question that it was sent, and writes every question into `questions.txt`.
"""

from __future__ import annotations

from tests.acceptance.conftest import Project

SOURCE = r'''
import re

from harness.agents.llm import LlmAgent
from harness.model.inference import ModelAnswer, FunctionCall


class Brain:
    """Calls the tools of its lines in turn; how far it is, it reads in the history that it is told."""

    def __init__(self, lines):
        self.lines = lines

    async def ask(self, model, prompt):
        text = "\n".join([prompt.instructions, *prompt.parts])
        with open("questions.txt", "a") as file:
            file.write(text + "\n=====\n")
        place = self.place(re.findall(r"^\d+\. (?!wait 0.25 s)(.*)", prompt.parts[1], re.M))
        line = self.lines[min(place, len(self.lines) - 1)]
        return ModelAnswer(text="", calls=(self.call(line, prompt.parts[2]),), call=None)

    def place(self, history):
        return sum(" -> passed" in line for line in history)

    def call(self, line, page):
        name, _, rest = line.strip().partition(" ")
        arguments = dict(re.findall(r"(\w+)=<([^>]*)>", rest))
        if "element" in arguments and "target" not in arguments:
            found = re.search("- " + re.escape(arguments["element"]) + r".*?\[ref=(\w+)\]", page)
            if found is None:  # it may still come
                return FunctionCall("browser_wait_for", {"time": 0.25})
            arguments["target"] = found[1]
        if "values" in arguments:
            arguments["values"] = [arguments["values"]]
        return FunctionCall(name, arguments)


class Each(Brain):
    """Goes on after a failure, too."""

    def place(self, history):
        return len(history)


LINES = %s


class Agent(LlmAgent):
    def __init__(self, policy, **options):
        super().__init__(%s(LINES), policy, model="scripted", **options)
'''


def install(project: Project, lines: str, settings: str = "", *, brain: str = "Brain") -> None:
    """Give the project the agent `builder`, whose model says these lines. `settings`: more of its tables."""
    listed = [line.strip() for line in lines.strip().splitlines()]
    (project.path / "brain.py").write_text(SOURCE % (repr(listed), brain), "utf-8")
    path = project.path / "pyproject.toml"
    table = f'[tool.harness.agents.builder]\npython = "brain:Agent"\n{settings}\n'
    path.write_text(f"{path.read_text('utf-8')}\n{table}", "utf-8")


def questions(project: Project) -> list[str]:
    """What the model was asked, in order."""
    return (project.path / "questions.txt").read_text("utf-8").split("\n=====\n")[:-1]
