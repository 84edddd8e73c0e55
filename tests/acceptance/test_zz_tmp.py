import sys, signal, time, os, json, psutil
sys.path.insert(0,'/work/main')
from tests.acceptance.test_pytest_plugin import *
from tests.acceptance.test_pytest_plugin import _family_with_browser
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", [True, False])
def test_x(project, number, group):
    for n in ("A-1","B-2"):
        project.task(n, steps=[OPEN, {"act": "wait", "value": 60}], timeout=120, **({"expect": {"final_state":"failed"}} if n=="A-1" else {}))
    t0=time.time()
    process = project.start("-n","2")
    family = _family_with_browser(process.pid)
    time.sleep(3)
    t=time.time()
    (os.killpg if group else os.kill)(process.pid, number)
    out,_=process.communicate(timeout=60)
    print(number, group, process.returncode, time.time()-t, [ (p.parent.name, json.loads(p.read_text())["code"]) for p in project.path.glob("errors/*/error_report.json")])
    print(out)
    _, alive = psutil.wait_procs(family, timeout=5)
    print("alive", [p.cmdline()[:4] for p in alive])
