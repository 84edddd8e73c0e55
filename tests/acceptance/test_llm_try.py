import json, re
from pathlib import Path
import pytest
from tests.acceptance.conftest import Project
from tests.acceptance.scripted_model import SOURCE
from tests.acceptance.test_agents import extend

def brain(project, script, agent="", policy="", cls=""):
    (project.path/"brain.py").write_text(SOURCE+f'''
SCRIPT = {script!r}

{cls or "class Mine(Brain): pass"}

class Agent(LlmAgent):
    def __init__(self, policy, **options):
        super().__init__(Mine(SCRIPT), policy, model="scripted", **options)
''')
    extend(project, f'[tool.harness.agents.builder]\npython = "brain:Agent"\n{agent}\n[tool.harness.agents.builder.policy]\n{policy}')

def test_it(project: Project):
    brain(project, """
browser_navigate url=<http://shop.local/>
browser_type element=<searchbox "Search"> text=<wireless mouse>
browser_click element=<button "Search">
browser_click element=<link "Logitech M185">
browser_click element=<button "Add to cart">
done
""", policy='writes="declared"')
    project.task("T", steps=[], goal="buy", success_criteria=["text('#cart-count') == '1'"], allowed_writes=[])
    r=project.run("--task-agent","builder")
    print(r.stdout.str())
    print((project.path/"prompts.txt").read_text()[-9000:])
    r.assert_outcomes(passed=1)
