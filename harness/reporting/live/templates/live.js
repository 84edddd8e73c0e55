"use strict";
// The live page of a run: it folds the records of the run's event file, as they come, into what it shows.
// Texts of records come from sites and tests: they are only ever set as text.

const LATELY = 60, ROWS = 300, CAUSES = 50, OFTEN = 250, RUNS_EVERY = 5000, SLOW = 2;
const LINKS = { "error_report.json": "report", "screenshot.png": "screenshot", "video.webm": "video", "trace.zip": "trace" };
const QUIET = ["run-begun", "task-begun", "step-begun", "model-asked", "tool-called", "step"];
const byId = (id) => document.getElementById(id);

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== "") made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  return made;
}

function duration(seconds) {
  if (!isFinite(seconds)) return "";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// What is known of a run, from its records.

function emptyRun() {
  return {
    began: null, last: null, tasks: 0, running: new Map(), ended: new Map(), keys: new Map(), errors: new Map(),
    counts: { passed: 0, failed: 0, skipped: 0, interrupted: 0 }, attempts: 0, failures: 0, retries: 0, recovered: 0, fallbacks: 0, waits: 0,
    circuits: new Map(), services: new Map(), tools: new Map(), clients: new Map(), thresholds: new Map(), calls: 0, cost: 0, toolCalls: 0, inconsistent: 0, lately: [],
  };
}

function outcomeOf(record) {
  if (record.final_state === "skipped") return "skipped";
  if (record.code === "INTERRUPTED") return "interrupted"; // it has no verdict
  const good = record.final_state === "completed" || record.final_state === "partial_success";
  return good || record.expected ? "passed" : "failed";
}

const FOLD = {
  "run-begun": (run, r) => { run.tasks = r.tasks; },
  "task-begun": (run, r, at) => { leave(run, r.task_id); forget(run, r.task_id); run.running.set(nameOf(r), { task: r.task_id, since: at, steps: r.steps, worker: r.worker, step: null, what: "", note: "" }); run.keys.set(r.task_id, r.key); },
  "step-begun": (run, r) => { const now = run.running.get(nameOf(r)); if (now) { now.step = r.step; now.what = r.name; now.note = ""; } },
  "retry": (run, r) => { run.retries += r.step === null ? 0 : 1; note(run, r, `retry ${r.attempt} of ${r.retries}: ${r.error}`); },
  "waiting": (run, r) => { run.waits += 1; note(run, r, `waits up to ${duration(r.seconds)}: ${r.reason}`); },
  "fallback": (run, r) => { run.fallbacks += 1; note(run, r, `falls back to ${r.to}`); },
  "recovered": (run, r) => { run.recovered += r.step === null ? 0 : 1; note(run, r, ""); },
  "failed": (run, r) => { if (r.task_id) run.errors.set(r.task_id, { name: r.name, error: r.error, code: r.code }); },
  "model-asked": (run, r) => note(run, r, `${r.agent} thinks (${r.model})`),
  "model-answered": (run, r) => { run.calls += 1; run.cost += r.cost_usd || 0; note(run, r, ""); },
  "tool-called": (run, r) => note(run, r, `calls ${r.server}.${r.tool}`),
  "tool-answered": (run, r) => { run.toolCalls += 1; note(run, r, ""); },
  "circuit-state-change": (run, r) => see(run.circuits, r.circuit, r),
  "service-status": (run, r) => see(run.services, r.service, r),
  "tool-server-status": (run, r) => see(run.tools, r.server, r),
  "client-status": (run, r) => see(run.clients, r.session, r),
  "threshold": (run, r) => run.thresholds.set(r.metric, r),
  "invariant-violated": (run) => { run.inconsistent += 1; },
  "task": (run, r, at) => {
    leave(run, r.task_id);
    const outcome = outcomeOf(r);
    forget(run, r.task_id);
    const ended = { task: r.task_id, outcome, state: r.final_state, code: r.code, seconds: r.seconds, retries: r.retries, recovered: r.recovered, at, reason: r.reason, expected: r.expected, faulted: r.faulted };
    run.ended.set(run.tasks ? r.task_id : `${r.task_id} ${run.ended.size}`, ended); run.counts[outcome] += 1;
    run.attempts += r.attempts || 0; run.failures += r.failures || 0;
  },
};

// A task runs in one process at a time. One that died left it behind: the controller, or who runs it again, tells.
function leave(run, task) {
  for (const [name, now] of run.running) if (now.task === task) run.running.delete(name);
}

// A task is run again, so the last execution counts. A command that does not tell how many tasks there are, such as
// `harness chaos`, runs each several times, and each execution counts.
function forget(run, task) {
  const before = run.ended.get(task);
  if (before) { run.counts[before.outcome] -= 1; run.ended.delete(task); }
}

// What each process of the run has last seen of a circuit, a site or a server.
function see(all, name, record) {
  if (!all.has(name)) all.set(name, new Map());
  all.get(name).set(record.worker, record);
}

function count(n, one, several) { return `${n} ${n === 1 ? one : several}`; }
function nameOf(record) { return `${record.worker}|${record.task_id}`; }
function note(run, record, text) { const now = run.running.get(nameOf(record)); if (now) now.note = text; }

function fold(run, line) {
  let record;
  try { record = JSON.parse(line); } catch { return; } // a line that a killed process did not finish
  const at = Date.parse(record.at);
  run.began ??= at; run.last = at;
  FOLD[record.type]?.(run, record, at);
  const said = record.type === "model-answered" || record.type === "tool-answered" ? record.code : true;
  if (said && !QUIET.includes(record.type)) {
    const before = run.lately[run.lately.length - 1];
    if (before && record.type === "waiting" && before.type === "waiting" && before.task_id === record.task_id) run.lately.pop();
    run.lately.push(record);
    if (run.lately.length > LATELY) run.lately.shift();
  }
}

// The page.

const view = { run: null, name: "", chosen: new URLSearchParams(location.search).get("run") || "", stream: null, lines: 0, usual: {}, listed: [], files: new Map(), open: new Set(), dirty: true, connected: false, refused: false, away: false, end: 0 };

function table(name, heads, rows) {
  const made = element("table", "", { class: "stack tasks", "aria-label": name });
  const head = element("tr");
  heads.forEach((each) => head.append(element("th", each, { scope: "col" })));
  const top = element("thead"); top.append(head); made.append(top);
  const body = element("tbody");
  for (const [kind, cells] of rows) {
    const row = element("tr", "", kind ? { class: kind } : {});
    cells.forEach((cell, place) => {
      const made = element(place ? "td" : "th", cell instanceof Node ? "" : cell, { ...(place ? { "data-label": heads[place] } : { scope: "row" }) });
      if (cell instanceof Node) made.append(cell);
      row.append(made);
    });
    body.append(row);
  }
  made.append(body);
  return made;
}

// Puts nodes in a place, unless they are there already; who has the focus keeps it.
function put(place, ...nodes) {
  const scratch = element("div");
  scratch.append(...nodes);
  if (place.dataset.shown === scratch.innerHTML) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key || document.activeElement.getAttribute("href") : null;
  place.dataset.shown = scratch.innerHTML;
  place.replaceChildren(...scratch.childNodes);
  if (focused) [...place.querySelectorAll("a, summary")].find((each) => (each.dataset.key || each.getAttribute("href")) === focused)?.focus();
}

// The links to the files that a failed task has left, asked for when they are first shown.
function links(key) {
  const list = element("ul", "", { class: "links" }), base = `/evidence/${encodeURIComponent(view.name)}/${encodeURIComponent(key)}`;
  const add = (label, href) => { const item = element("li"); item.append(element("a", label, { href, target: "_blank", rel: "noreferrer" })); list.append(item); };
  const names = view.files.get(base);
  if (!names) { fetch(`/api${base}`).then((answer) => (answer.ok ? answer.json() : [])).catch(() => null).then((found) => { if (found) { view.files.set(base, found); view.dirty = true; } }); return list; }
  for (const [file, label] of Object.entries(LINKS)) {
    if (!names.includes(file)) continue;
    add(label, file === "trace.zip" ? `/trace-viewer/index.html?trace=${encodeURIComponent(`${location.origin}${base}/${file}`)}` : `${base}/${file}`);
  }
  if (names.length) add("all files", base); else list.append(element("li", "its files are no longer there"));
  return list;
}

function showHead(run, listed) {
  const { passed, failed, skipped, interrupted } = run.counts, ended = passed + failed + skipped;
  const total = Math.max(run.tasks, ended + interrupted + run.running.size), over = isOver();
  const word = (n) => (run.tasks || !ended ? count(n, "task", "tasks") : count(n, "execution", "executions")), going = over ? 0 : run.running.size;
  const whole = over && listed && ended >= run.tasks && ["finished", "", null].includes(listed.ending);
  byId("verdict").textContent = whole ? (failed ? `${failed} of ${word(ended)} failed` : passed ? `${word(passed)} passed` : ended ? `${word(ended)} skipped` : "No task has ended") :
    `${run.tasks || !ended ? `${ended} of ${word(total)}` : word(ended)} ended${failed ? `, ${failed} failed` : ""}${over && listed ? `, then the run was ${["interrupted", "killed"].includes(listed.ending) ? listed.ending : "cut off"}` : ""}`;
  byId("head").className = failed ? "bad" : whole && passed ? "good" : "unsure";
  document.title = `${failed ? `✗ ${failed} failed · ` : ""}${ended}/${total} · ${view.name}`;
  const parts = { passed, failed, skipped, running: going };
  for (const [name, n] of Object.entries(parts)) byId("progress").querySelector(`.${name}`).style.width = total ? `${100 * n / total}%` : "0";
  byId("progress").setAttribute("aria-label", `${passed} passed, ${failed} failed, ${skipped} skipped, ${going} running, of ${total}`);
  const now = over ? run.last : Date.now(), meta = [`${over ? "took" : "running for"} ${duration((now - run.began) / 1000)}`];
  const rest = left(run, total - ended);
  if (!over && rest) meta.push(`about ${duration(rest)} to go, by the ${[...run.ended.values()].some((each) => each.task in view.usual) ? "usual times" : "tasks that have ended"}`);
  if (listed?.shard) meta.push(`shard ${listed.shard} of the tasks`);
  if (over && listed) meta.push(listed.ending && listed.ending !== "finished" ? listed.ending : "ended");
  if (!run.tasks && [...run.ended.values()].some((each) => each.faulted && each.outcome === "failed")) meta.push("a failure under a fault may be wanted: the command judges it");
  put(byId("meta"), ...meta.map((each) => element("li", each)));
}

function left(run, open) {
  // The usual time of an ended task stands for those that have not begun: their names are not known here.
  const known = [...run.ended.values()].map((each) => view.usual[each.task] ?? each.seconds);
  if (!known.length || open <= 0) return 0;
  const mean = known.reduce((sum, each) => sum + each, 0) / known.length;
  return mean * open / Math.max(1, run.running.size);
}

function showTiles(run) {
  const tiles = [["passed", run.counts.passed], ["failed", run.counts.failed], ["skipped", run.counts.skipped], ["running", isOver() ? 0 : run.running.size],
    ["attempts", run.attempts], ["failed attempts", run.failures], ["retries", run.retries], ["recovered", run.recovered]];
  if (run.counts.interrupted) tiles.push(["interrupted", run.counts.interrupted]);
  if (run.fallbacks) tiles.push(["fallbacks", run.fallbacks]);
  if (run.calls) tiles.push(["model calls", run.calls], ["cost", `$${run.cost.toFixed(4)}`]);
  if (run.toolCalls) tiles.push(["tool calls", run.toolCalls]);
  put(byId("tiles"), ...tiles.map(([name, n]) => { const li = element("li", "", { class: name }); li.append(element("strong", String(n)), document.createTextNode(name)); return li; }));
}

function showNow(run) {
  const rows = [...run.running.values()].sort((a, b) => a.since - b.since).slice(0, ROWS).map((each) => {
    const seconds = (Date.now() - each.since) / 1000, usual = view.usual[each.task];
    const time = element("span", `${duration(seconds)}${usual ? ` of usually ${duration(usual)}` : ""}`, usual && seconds > SLOW * usual ? { class: "late" } : {});
    const step = each.step === null ? "" : each.step < 0 ? "before its steps" : `${each.step}${each.steps ? ` (of 0-${each.steps - 1})` : ""}`;
    return ["", [each.task, step, each.note || each.what, time, each.worker]];
  });
  const over = isOver();
  if (!rows.length || over) { put(byId("now"), element("p", isGone() ? "Nothing more is known of the run." : over ? "The run has ended." : "No task runs at this moment.", { class: "none" })); return; }
  put(byId("now"), table("Running now", ["Task", "Step", "What", "Time", "Worker"], rows));
}

// Failures have one cause if they have one code and one message, apart from numbers and quoted values.
function causeOf(run, each) {
  const told = run.errors.get(each.task)?.error || "";
  return `${each.code || each.state} ${told.replace(/'[^']*'|"[^"]*"/g, "''").replace(/\d+/g, "0")}`;
}

function showCauses(run) {
  const causes = new Map();
  for (const each of run.ended.values()) {
    if (each.outcome !== "failed") continue;
    const name = causeOf(run, each);
    if (!causes.has(name)) causes.set(name, []);
    if (!causes.get(name).some((other) => other.task === each.task)) causes.get(name).push(each);
  }
  const found = [...causes.entries()].sort((a, b) => b[1].length - a[1].length), shown = found.slice(0, CAUSES);
  const cards = shown.map(([name, failed]) => cause(run, name, failed));
  if (found.length > CAUSES) cards.push(element("p", `and ${found.length - CAUSES} more causes`, { class: "small" }));
  put(byId("causes"), ...(cards.length ? cards : [element("p", "Nothing has failed.", { class: "none" })]));
}

function cause(run, name, failed) {
  const card = element("div", "", { class: "cause" }), head = element("h3", failed[0].code || failed[0].state);
  head.append(" ", element("span", `${count(failed.length, "task", "tasks")}`, { class: "badge count" }));
  const told = run.errors.get(failed[0].task), open = view.open.has(name);
  card.append(head);
  if (told) card.append(element("p", `${told.name}: ${told.error}`, { class: "hint" }));
  const all = element("details", "", { "data-cause": name, ...(open ? { open: "" } : {}) });
  all.append(element("summary", failed.slice(0, 3).map((each) => each.task).join(", ") + (failed.length > 3 ? ", ..." : ""), { "data-key": name }));
  if (open) {
    failed.slice(0, 50).forEach((each) => { const item = element("div"); item.append(element("strong", each.task), links(run.keys.get(each.task) || each.task)); all.append(item); });
    if (failed.length > 50) all.append(element("p", `and ${failed.length - 50} more`, { class: "small" }));
  }
  card.append(all);
  return card;
}

function showAround(run) {
  const level = (text, kind) => element("span", text, { class: `level ${kind}` }), rows = [];
  const STATES = { up: "ok", online: "ok", closed: "ok", attached: "ok", stopped: "", offline: "warning", restarting: "warning", half_open: "warning", detached: "warning", connecting: "warning", booting: "warning" };
  for (const [what, all] of [["site", run.services], ["tool server", run.tools], ["circuit", run.circuits], ["client", run.clients]]) {
    for (const [name, seen] of all) {
      const records = [...seen.values()], agreed = records.every((r) => r.to === records[0].to);
      for (const r of agreed ? [records[records.length - 1]] : records) {
        rows.push(["", [`${what} ${r.client || name}${agreed ? "" : ` (${r.worker || "controller"})`}`, level(r.to, STATES[r.to] ?? "critical"), r.reason]]);
      }
    }
  }
  for (const r of run.thresholds.values()) rows.push(["", [`threshold ${r.metric}`, level(r.to, r.to), `${r.value}`]]);
  if (run.inconsistent) rows.push(["", ["states that exclude each other", level(String(run.inconsistent), "warning"), "see Lately"]]);
  put(byId("around"), rows.length ? table("Sites, circuits and thresholds", ["What", "State", "Reason"], rows) : element("p", "Nothing to report.", { class: "none" }));
}

function showDone(run) {
  const search = byId("search").value.trim().toLowerCase(), which = byId("which").value;
  const found = [...run.ended.values()].filter((each) => (!which || each.outcome === which) && each.task.toLowerCase().includes(search)).sort((a, b) => b.at - a.at);
  byId("shown").textContent = found.length > ROWS ? `the last ${ROWS} of ${found.length}` : `${found.length}`;
  const rows = found.slice(0, ROWS).map((each) => {
    const usual = view.usual[each.task];
    return [each.outcome, [each.task, element("span", each.expected ? `${each.state}, as declared` : each.faulted && each.outcome === "failed" ? `${each.state}, under a fault` : each.state, { class: "state" }), each.code || each.reason,
      `${duration(each.seconds)}${usual ? ` (usually ${duration(usual)})` : ""}`, each.retries ? count(each.retries, "retry", "retries") : ""]];
  });
  put(byId("done"), rows.length ? table("Ended tasks", ["Task", "State", "Code", "Time", "Retries"], rows) : element("p", "None.", { class: "none" }));
}

const WORDS = {
  "retry": (r) => `retry ${r.attempt}/${r.retries}: ${r.error}`, "waiting": (r) => `waits ${duration(r.seconds)}: ${r.reason}`,
  "failed": (r) => `${r.name}: gave up: ${r.error}`, "recovered": (r) => `${r.name}: recovered after ${duration(r.after)}`,
  "degraded": (r) => `${r.name}: ${r.reason}`, "escalated": (r) => `${r.name}: still runs after ${duration(r.waited || 0)}`,
  "fallback": (r) => `${r.name}: ${r.from} -> ${r.to}`, "task": (r) => `task ${r.final_state}${r.code ? `: ${r.code}` : ""} (${duration(r.seconds)})`,
  "circuit-state-change": (r) => `circuit ${r.circuit}: ${r.from} -> ${r.to} (${r.reason})`, "service-status": (r) => `site ${r.service}: ${r.from} -> ${r.to} (${r.reason})`,
  "client-status": (r) => `client ${r.client || r.session}: ${r.from} -> ${r.to}${r.reason ? ` (${r.reason})` : ""}`,
  "tool-server-status": (r) => `tool server ${r.server}: ${r.from} -> ${r.to} (${r.reason})`, "threshold": (r) => `threshold ${r.metric}: ${r.from} -> ${r.to}`,
  "model-answered": (r) => `${r.agent} thought ${duration(r.seconds)} (${r.model}${r.code ? `, ${r.code}` : ""})`, "invariant-violated": (r) => `inconsistent: ${r.rule}`,
  "tool-answered": (r) => `${r.server}.${r.tool} ${r.outcome}${r.code ? `: ${r.code}` : ""} (${duration(r.seconds)})`,
};

function showLately(run) {
  put(byId("events"), ...run.lately.slice().reverse().map((r) => {
    const item = element("li", "", { class: r.level }), place = r.task_id ? ` [${r.task_id}${r.step === null ? "" : ` step ${r.step}`}]` : "";
    item.append(element("time", new Date(r.at).toLocaleTimeString(), { datetime: r.at }), ` ${(WORDS[r.type] || ((x) => x.type))(r)}${place}`);
    return item;
  }));
}

function listedRun() { return view.listed.find((each) => each.run === view.name); }
function isGone() { return !!view.name && !listedRun(); } // its event file was deleted while it was shown
function isOver() { return isGone() || listedRun().running === false; }

function show() {
  const link = byId("link");
  link.textContent = isGone() ? "deleted" : view.connected ? "live" : view.refused ? "not allowed any more" : view.name || view.away ? "connecting" : "no run yet";
  const gone = "The events of this run were deleted, so this page shows what it had read before. It goes on with the next run.";
  const notice = view.refused ? "The address that you have opened is no longer valid. Open the one that `harness serve status` prints." :
    view.away ? "The server does not answer, so this page may be out of date. It goes on by itself when the server runs again at this address." : isGone() ? gone : "";
  byId("notices").hidden = !notice;
  if (byId("notices").textContent !== notice) byId("notices").textContent = notice;
  const newest = view.listed[0];
  byId("newest").hidden = !newest?.running || newest.run === view.name;
  link.className = view.connected && !isGone() ? "on" : "";
  const run = view.run;
  if (!run || run.began === null) return;
  showHead(run, listedRun()); showTiles(run); showNow(run);
  if (!view.dirty) return;
  view.dirty = false;
  showCauses(run); showAround(run); showDone(run); showLately(run);
}

function follow(name) {
  view.stream?.close();
  Object.assign(view, { run: emptyRun(), name, lines: 0, end: 0, dirty: true, connected: false });
  document.body.dataset.run = name;
  // The browser asks again by itself, from the offset of the last message that it got.
  const stream = view.stream = new EventSource(`/api/runs/${encodeURIComponent(name)}/events`);
  stream.onopen = () => { view.connected = true; };
  stream.onerror = () => { view.connected = false; if (stream.readyState === EventSource.CLOSED) setTimeout(() => view.stream === stream && follow(name), RUNS_EVERY); };
  stream.onmessage = (message) => {
    const end = Number(message.lastEventId);
    if (end <= view.end) Object.assign(view, { run: emptyRun(), lines: 0 }); // the file was cut or replaced: it comes from its beginning
    view.end = end;
    for (const line of message.data.split("\n")) { fold(view.run, line); view.lines += 1; }
    document.body.dataset.lines = view.lines;
    view.dirty = true;
  };
}

async function look() {
  try {
    const runs = await fetch("/api/runs");
    Object.assign(view, { refused: runs.status === 401, away: false });
    if (runs.ok) view.listed = await runs.json();
  } catch { view.away = true; return; } // the next look finds it again
  const select = byId("run"), names = view.listed.map((each) => each.run);
  if (select.options.length !== names.length || names.some((name, place) => select.options[place].value !== name)) {
    select.replaceChildren(...view.listed.map((each) => element("option", each.run, { value: each.run })));
  }
  view.listed.forEach((each, place) => { select.options[place].textContent = `${each.run}${each.shard ? `, shard ${each.shard}` : ""}${each.running ? " (running)" : ""}`; });
  const wanted = names.includes(view.chosen) ? view.chosen : names[0];
  if (wanted && wanted !== view.name) follow(wanted);
  select.value = view.name;
  const usual = await fetch(`/api/usual?besides=${encodeURIComponent(view.name)}`).catch(() => null); // after the run is known: its own times are not usual ones
  if (usual?.ok) view.usual = await usual.json().catch(() => view.usual);
}

byId("run").addEventListener("change", (event) => {
  view.chosen = event.target.value;
  history.replaceState(null, "", `?run=${encodeURIComponent(view.chosen)}`);
  follow(view.chosen);
});
byId("newest").addEventListener("click", () => {
  view.chosen = "";
  history.replaceState(null, "", location.pathname);
  follow(view.listed[0].run);
  byId("run").value = view.name;
  byId("run").focus();
});
byId("causes").addEventListener("toggle", ({ target }) => {
  const name = target.dataset?.cause;
  if (!name || view.open.has(name) === target.open) return;
  if (target.open) view.open.add(name); else view.open.delete(name);
  view.dirty = true;
}, true);
for (const id of ["search", "which"]) byId(id).addEventListener("input", () => { view.dirty = true; show(); });
setInterval(show, OFTEN);
setInterval(look, RUNS_EVERY);
look();
