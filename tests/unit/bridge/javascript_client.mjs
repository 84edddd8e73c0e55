// What tests/unit/bridge/test_javascript_client.py asks of the client in JavaScript. Usage: node FILE CLIENT URL NOBODY
const [client, base, nowhere] = process.argv.slice(2);
const { Bridge, BridgeError } = await import(client);
const told = {};

/** A clock that jumps. */
function clock() {
  const at = { time: 0, slept: [] };
  const sleep = async (seconds) => {
    at.slept.push(Math.round(seconds * 100) / 100);
    at.time += seconds;
    await new Promise((done) => setTimeout(done, 1));
  };
  return { at, options: { sleep, now: () => at.time } };
}
const failure = async (work) => {
  try {
    await work;
    return null;
  } catch (error) {
    return { name: error.name, code: error.code, message: error.message, document: error.document ?? null };
  }
};

async function purchase(world) {
  const bridge = await Bridge.open(`${base}/${world}`, "t0ken", clock().options);
  const task = await bridge.take();
  const page = await task.observe();
  for (const value of ["0", "1", "2"]) await task.act({ act: "click", selector: "#buy", value });
  const verdict = await task.finish();
  const left = await bridge.take();
  await bridge.close();
  return { goal: task.goal, inputs: task.inputs, aria: page.aria, passed: verdict.passed, over: task.over, left };
}
told.cuts = {};
for (const direction of ["client", "server"])
  for (let number = 1; number <= 8; number += 1) told.cuts[`${direction}-${number}`] = await purchase(`${direction}-${number}`);
told.slow = await purchase("slow");
told.expires = await purchase("expires");
const violations = [{ field: "type", constraint: "unknown" }];
told.broken = new BridgeError("PROTO_INVALID_MESSAGE", "Message validation failed", { violations }).message;
told.refused = await failure(Bridge.open(`${base}/refuses`, "wrong", clock().options));

{
  const { at, options } = clock();
  const bridge = await Bridge.open(`${base}/gone`, "t0ken", options);
  at.slept.length = 0;
  bridge.socket = async () => {
    throw new Error("no");
  };
  bridge.url = nowhere;
  bridge.link.socket.close();
  told.exhausted = await failure(bridge.request("synchronize"));
  told.delays = [...at.slept];
  told.state = [bridge.state, bridge.circuit.state];
  told.circuit = await failure(bridge.connect());
  at.time += 30;
  bridge.socket = async (url) => new WebSocket(url);
  bridge.url = `${base}/gone`;
  await bridge.connect();
  told.again = [bridge.state, bridge.circuit.state, bridge.session];
  await bridge.close();
}
{
  const { at, options } = clock();
  const nobody = new Bridge(nowhere, "t", options);
  told.nobody = await failure(nobody.connect());
  told.first = at.slept;
  told.afterwards = await failure(Promise.race([nobody.request("synchronize"), new Promise((done) => setTimeout(done, 1000))]));
}
{
  const timers = () => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
  const before = timers();
  const bridge = await Bridge.open(`${base}/timers`, "t0ken");
  bridge.delays = [30];
  bridge.socket = async () => {
    throw new Error("no");
  };
  bridge.url = nowhere;
  bridge.link.socket.close();
  const asked = failure(bridge.request("synchronize"));
  while (!bridge.timers.size) await new Promise((done) => setTimeout(done, 5));
  await bridge.close();
  told.closed = [(await asked).code, timers() - before];
  const other = await Bridge.open(`${base}/timers`, "t0ken");
  await other.close();
  told.closed.push(timers() - before);
}
{
  const tell = () => {
    throw new TypeError("the agent's own");
  };
  const bridge = await Bridge.open(`${base}/tells`, "t0ken", { ...clock().options, tell });
  const waits = failure(bridge.request("synchronize"));
  bridge.link.socket.close();
  told.tells = (await Promise.race([waits, new Promise((done) => setTimeout(done, 1000))]))?.name ?? "answered";
  told.tells = [told.tells, (await failure(bridge.request("synchronize")))?.name];
}
{
  const bridge = await Bridge.open(`${base}/incomplete`, "t0ken", clock().options);
  let back;
  const returned = new Promise((done) => (back = done));
  bridge.socket = async (url) => (await returned, new WebSocket(url));
  bridge.link.socket.close();
  while (bridge.state !== "away") await new Promise((done) => setTimeout(done, 5));
  const hook = { event: "Stop", timestamp: new Date().toISOString(), session_id: "a", payload: {} };
  const answers = Array.from({ length: 5 }, () => bridge.request("hook_event", hook));
  const rest = Array.from({ length: 996 }, () => failure(bridge.request("hook_event", hook)));
  told.full = (await rest.at(-1)).code;
  back();
  told.flushed = (await Promise.all(answers)).map((each) => each.type);
  await Promise.all(rest);
  told.synchronized = bridge.status.synchronized;
  await bridge.close();
}
console.log(JSON.stringify(told));
process.exit(0);
