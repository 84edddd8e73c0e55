// The client of the bridge of pytest-taskspec, for agents in JavaScript: Node 22 and later, Node 20 with
// --experimental-websocket, browsers. It has no dependency. docs/bridge.md describes it; harness/bridge/client is its
// twin in Python.
//
//   const bridge = await Bridge.open(url, token, { agent: "my-agent 1.0" });
//   const task = await bridge.take();
//   const page = await task.observe();
//   await task.act({ act: "click", selector: "#buy" });
//   const verdict = await task.finish();
//   await bridge.close();

export const DELAYS = [1, 2, 5, 10, 30]; // seconds before each attempt after a loss
const FIRST_DELAYS = [1, 2, 5, 10]; // seconds before each attempt after a failed first one
const QUICK = 2; // seconds: a first failure that shows itself sooner is followed by an attempt at once
const LONGEST_QUEUE = 1000; // messages
const LARGEST_QUEUE = 1024 * 1024; // bytes
const OPENED_WITHIN = 10; // seconds for one attempt to connect, and again for its first messages
const CLOSED_WITHIN = 2; // seconds
const ALIVE = 20; // seconds of silence after which the server is asked whether it is there, and again to answer
const SHORTEST_POLL = 0.2; // seconds between two questions for a pending answer, at least
const CLIENT = "pytest-taskspec javascript client";

/** Something at the bridge failed; `code` is one of the codes of docs/bridge.md. */
export class BridgeError extends Error {
  constructor(code, message, details = {}) {
    const rows = Array.isArray(details.violations) ? details.violations : [];
    const violations = rows.map((each) => `${each?.field} (${each?.constraint})`).join(", ");
    super(`${code}: ${message}${violations && `: ${violations}`}`);
    Object.assign(this, { name: this.constructor.name, code, reason: message, details });
  }
}
/** Trying again would not help: the certificate, the token or the session is refused. */
export class ConnectionRefusedForGood extends BridgeError {
  /** The message `connection_error` of this refusal. */
  get document() {
    const { code, reason: message, details } = this;
    return { type: "connection_error", payload: { code, message, details, recoverable: false } };
  }
}
/** Every attempt to connect failed. The session may live on: the option `session` joins it. */
export class ReconnectionExhausted extends BridgeError {}
/** The server refuses a message; the connection goes on. */
export class MessageRefused extends BridgeError {}
/** More messages wait than the client keeps. */
export class QueueFull extends BridgeError {}
class LinkLost extends BridgeError {
  constructor(code, message, atOnce) {
    super(code, message);
    this.atOnce = atOnce;
  }
}

/** The error of a refusal. `joining`: the messages by which a connection begins would be refused again. */
function refusal({ code = "SYS_INTERNAL_ERROR", message = "the server gives no reason", ...rest }, joining = false) {
  const { recoverable, details, ...more } = rest;
  const final = joining || recoverable === false || code.startsWith("AUTH_") || code === "CONN_SUPERSEDED";
  return new (final ? ConnectionRefusedForGood : MessageRefused)(code, message, { ...more, ...details });
}

/** After five failures in a row no attempt is made for 30 s; the next one is a probe. */
class Circuit {
  failures = 0;
  openedAt = null;
  constructor(now) {
    this.now = now;
  }
  get restsFor() {
    return this.openedAt === null ? 0 : Math.max(0, this.openedAt + 30 - this.now());
  }
  get state() {
    return this.openedAt === null ? "closed" : this.restsFor ? "open" : "half_open";
  }
  succeeded() {
    this.failures = 0;
    this.openedAt = null;
  }
  failed() {
    this.failures += 1;
    if (this.failures >= 5) this.openedAt = this.now();
  }
}

/** An agent's session at a bridge. It works on one task at a time. */
export class Bridge {
  /** Connect and open a session, or join the one of the option `session`. */
  static async open(url, token, options = {}) {
    const bridge = new Bridge(url, token, options);
    await bridge.connect();
    return bridge;
  }

  /**
   * Options: `agent`, `folder` (for reports), `session` (the id of one to go on with), `pin` (the SHA-256 of a
   * self-signed certificate; in Node only), `delays` (seconds), `tell` (gets a sentence when the connection changes),
   * and for tests `sleep`, `now` (seconds) and `socket` (makes a WebSocket of an address).
   */
  constructor(url, token, options = {}) {
    const { agent = "", folder = "", session = "", pin = "", delays = DELAYS, tell = () => {} } = options;
    this.url = bridgeUrl(url);
    this.pin = readPin(pin);
    Object.assign(this, { session, delays, tell, state: "connecting", status: {}, epoch: "", seq: 0 });
    this.hello = { token, client: CLIENT };
    this.about = { agent, folder };
    this.timers = new Map(); // what would keep Node alive -> what ends it
    this.sleep = options.sleep ?? ((seconds) => this.#rest(seconds));
    this.now = options.now ?? (() => performance.now() / 1000);
    this.socket = options.socket ?? ((address) => openSocket(address, this.pin));
    this.circuit = new Circuit(this.now);
    this.waiting = new Map(); // id -> a message without an answer, in order
    this.size = 0;
  }

  /** Connect; after `ReconnectionExhausted`, begin anew. */
  async connect() {
    this.failure = null;
    try {
      this.kept = this.#keep(await this.#connect(FIRST_DELAYS, null));
    } catch (error) {
      this.state = "failed";
      this.#fail(error); // a request would wait for ever
      throw error;
    }
  }

  /**
   * Take the next task that is offered, or the one with that id. A joined session gives the one that it has. null: there
   * is none in `wait` seconds, or the run is over.
   */
  async take(task = "", { wait = 30 } = {}) {
    if (this.found) {
      const { found } = this;
      this.found = null;
      return found;
    }
    try {
      const { payload } = await this.request("task_take", { task, wait_ms: Math.round(wait * 1000) });
      this.task = new TakenTask(this, payload);
      return this.task;
    } catch (error) {
      if (["SESS_NO_TASK", "SYS_STOPPING"].includes(error.code)) return null;
      throw error;
    }
  }

  /** A body that a message named, such as a screenshot, as bytes. */
  async blob(sha256) {
    const url = new URL(`/blobs/${sha256}`, this.url.replace(/^ws/, "http"));
    const dispatcher = this.pin && (await pinned(this.pin));
    const headers = { authorization: `Bearer ${this.hello.token}` };
    const answer = await fetch(url, dispatcher ? { headers, dispatcher } : { headers });
    if (!answer.ok) throw new BridgeError("SESS_NO_BLOB", `${url}: the server answers HTTP ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  }

  /** Send one message and return its answer, over losses of the connection and long work. */
  request(type, payload = {}) {
    return new Promise((resolve, reject) => {
      if (this.failure) throw this.failure;
      const message = this.#message(type, payload);
      const text = JSON.stringify(message);
      const size = new TextEncoder().encode(text).length;
      if (this.waiting.size >= LONGEST_QUEUE || this.size + size > LARGEST_QUEUE) {
        throw new QueueFull("CONN_QUEUE_FULL", `more than ${LONGEST_QUEUE} messages or ${LARGEST_QUEUE} bytes wait`);
      }
      this.size += size;
      const ended = (end) => (value) => {
        if (this.waiting.delete(message.id)) this.size -= size;
        end(value);
      };
      this.waiting.set(message.id, { type, text, sent: false, resolve: ended(resolve), reject: ended(reject) });
      this.#flush();
    });
  }

  /** Close the session, and with it a task that was not finished. */
  async close() {
    if (this.state === "joined") {
      await Promise.race([this.request("session_close").catch(() => {}), this.sleep(CLOSED_WITHIN)]);
    }
    await this.detach();
  }

  /** Close the connection alone: within the server's grace, `session: bridge.session` goes on. */
  async detach() {
    this.state = "closed";
    this.#fail(new BridgeError("CONN_CLOSED", "the bridge was closed"));
    this.link?.close();
    for (const [timer, done] of this.timers) {
      clearTimeout(timer);
      done();
    }
  }

  #rest(seconds) {
    return new Promise((done) => {
      const timer = setTimeout(() => (this.timers.delete(timer), done()), seconds * 1000);
      this.timers.set(timer, done);
    });
  }

  async [Symbol.asyncDispose ?? Symbol.for("asyncDispose")]() {
    await this.close();
  }

  // The connection.

  /** Attempt until one succeeds; `loss` is what happened before the first. */
  async #connect(delays, loss) {
    const left = [...delays];
    for (let count = 0, first = true; ; count += 1) {
      if (loss) {
        const wait = first && loss.atOnce ? 0 : left.length ? Math.max(left.shift(), this.circuit.restsFor) : null;
        first = false;
        if (wait === null) {
          const told = `${count} attempts to connect failed, the last: ${loss.reason}`;
          throw new ReconnectionExhausted("CONN_RECONNECTION_EXHAUSTED", told, { attempts: count });
        }
        this.tell(`${loss.reason}; the next attempt is ${wait ? `in ${Math.round(wait)} s` : "made at once"}`);
        await this.sleep(wait);
      }
      if (this.state === "closed") throw this.failure;
      try {
        return await this.#attempt(loss !== null);
      } catch (error) {
        if (!(error instanceof LinkLost)) throw error;
        loss = error;
      }
    }
  }

  async #attempt(waited) {
    if (!waited && this.circuit.state === "open") {
      const told = `the circuit is open after ${this.circuit.failures} failures; it is tried again in ${Math.ceil(this.circuit.restsFor)} s`;
      throw new ReconnectionExhausted("CONN_CIRCUIT_OPEN", told);
    }
    let link;
    try {
      link = await Link.open(this);
      await within(OPENED_WITHIN, this.#join(link), "the server does not answer the first messages");
      this.circuit.succeeded();
      return link;
    } catch (error) {
      link?.close();
      if (error instanceof LinkLost) this.circuit.failed();
      throw error;
    }
  }

  /** The messages by which a connection begins: who this is, the session, and what was missed. */
  async #join(link) {
    await this.#exchange(link, "auth", this.hello);
    if (!this.session) {
      this.status = await this.#exchange(link, "session_create", this.about);
      this.session = this.status.session;
      return;
    }
    const join = { session: this.session, after: this.seq, epoch: this.epoch };
    if (!this.epoch) {
      // A session of another process: there is nothing to go on from but its present state.
      this.status = await this.#exchange(link, "session_join", join);
      this.seq = this.status.seq ?? 0;
      if (this.status.open_turn) this.task = this.found = new TakenTask(this, this.status.open_turn);
      return;
    }
    const replay = await this.#exchange(link, "session_join", join, "replay_buffer");
    if (!replay.complete) this.status = await this.#exchange(link, "synchronize", {});
  }

  /** One message and its answer, before the session's messages flow. `until`: the type of the last answer. */
  async #exchange(link, type, payload, until = "") {
    const message = this.#message(type, payload);
    link.send(JSON.stringify(message));
    for (;;) {
      const answer = JSON.parse(await link.receive());
      const mine = answer.id === message.id;
      if (mine && ["error", "connection_error"].includes(answer.type)) throw refusal(answer.payload, true);
      this.#takeIn(answer);
      if (mine && ["", answer.type].includes(until)) return answer.payload;
    }
  }

  /** Read, and connect again after each loss, until that is useless. */
  async #keep(link) {
    try {
      for (;;) {
        Object.assign(this, { link, state: "joined" });
        this.#flush();
        const loss = await this.#serve(link);
        if (this.state === "closed") return;
        Object.assign(this, { link: null, state: "away" });
        for (const each of this.waiting.values()) each.sent = false; // whether the server has them is unknown
        link = await this.#connect(this.delays, loss);
        this.tell(`connected again, session ${this.session}`);
      }
    } catch (error) {
      link.close();
      this.link = null;
      if (this.state === "closed") return;
      this.state = "failed";
      this.#fail(error);
      if (error instanceof BridgeError) this.tell(error.message); // else it may be `tell` that failed
    }
  }

  async #serve(link) {
    try {
      for (;;) this.#takeIn(JSON.parse(await link.receive(() => this.#stillThere(link))));
    } catch (error) {
      if (error instanceof LinkLost) return error;
      throw error;
    }
  }

  #stillThere(link) {
    link.send(JSON.stringify(this.#message("health_check", {})));
  }

  /** Send what was not sent on this connection, in order. */
  #flush() {
    for (const each of this.waiting.values()) {
      if (!this.link) return;
      if (!each.sent) {
        each.sent = true;
        this.link.send(each.text);
      }
    }
  }

  #message(type, payload) {
    return { type, id: crypto.randomUUID(), timestamp: new Date().toISOString(), payload };
  }

  /** Everybody who waits is told, and nothing that waited is sent later: its sender has given it up. */
  #fail(error) {
    this.failure = error;
    for (const each of [...this.waiting.values()]) each.reject(error);
  }

  // What the server sends.

  #takeIn(message) {
    const { type, id, payload } = message;
    const waiting = this.waiting.get(id);
    if (type === "connection_error") throw refusal({ recoverable: false, ...payload });
    if (type === "replay_buffer") payload.messages.forEach((each) => this.#takeIn(each));
    else if (!this.#isNew(message) && !waiting) return;
    if (type === "task_ended") this.task?.hasEnded(payload);
    if (!waiting) return;
    if (type === "pending" && waiting.type !== "command_result") this.#follow(waiting, message);
    else if (type === "error" || type === "tool_error") waiting.reject(refusal(payload));
    else waiting.resolve(message);
  }

  #isNew({ seq, epoch = this.epoch }) {
    if (seq === undefined) {
      this.epoch ||= epoch;
      return true;
    }
    if (epoch === this.epoch && seq <= this.seq) return false;
    Object.assign(this, { epoch, seq });
    return true;
  }

  /** Ask for the answer of long work until it is there. */
  async #follow(waiting, { id, payload }) {
    if (waiting.followed) return;
    waiting.followed = true;
    try {
      while (this.waiting.has(id)) {
        await this.sleep(Math.max(SHORTEST_POLL, (payload.poll_ms ?? 1000) / 1000));
        if (!this.waiting.has(id)) return;
        const answer = await this.request("command_result", { correlation_id: payload.correlation_id });
        if (answer.type !== "pending") return waiting.resolve(answer);
        if (["expired", "unknown"].includes(answer.payload.status)) {
          waiting.sent = false; // the answer is kept by the message's id, too
          this.#flush();
        }
      }
    } catch (error) {
      waiting.reject(error);
    }
  }
}

/** A task that is this session's until it ends. */
export class TakenTask {
  constructor(bridge, turn) {
    Object.assign(this, { bridge, payload: turn, taskId: turn.task_id, goal: turn.goal, inputs: turn.inputs ?? {} });
    this.turn = turn.turn;
    this.verdict = null; // how the task ended
  }
  /** Whether the task has ended: by `finish`, by a limit, or by the run's end. */
  get over() {
    return this.verdict !== null;
  }
  /** Look at the page: `url`, `title`, `aria`, and `screenshot` (bytes of a PNG) if asked for. */
  async observe({ screenshot = false } = {}) {
    const { payload } = await this.bridge.request("observe", { turn: this.turn, screenshot });
    const page = { ...payload };
    if (page.aria_blob) page.aria = new TextDecoder().decode(await this.bridge.blob(page.aria_blob.sha256));
    if (page.screenshot_blob) page.screenshot = await this.bridge.blob(page.screenshot_blob.sha256);
    return page;
  }
  /** Do one step, as in a task file. A step that fails is an outcome, not an error: look at `passed`. */
  async act(step) {
    const { type, payload } = await this.bridge.request("act", { turn: this.turn, step });
    if (type === "task_ended") this.hasEnded(payload);
    const next = payload.turn?.turn ?? payload.turn;
    if (Number.isInteger(next)) this.turn = next;
    return payload;
  }
  /** End the task: its success criteria are judged. */
  async finish() {
    return this.hasEnded((await this.bridge.request("finish", { turn: this.turn })).payload);
  }
  /** End the task without having done it. */
  async giveUp(reason) {
    return this.hasEnded((await this.bridge.request("finish", { turn: this.turn, gave_up: reason })).payload);
  }
  hasEnded(payload) {
    this.verdict = payload;
    return payload;
  }
}

/** One connection: what came and was not read yet, and how it ended. */
class Link {
  came = [];
  lost = null;
  wake = () => {};

  static async open(bridge) {
    const begun = bridge.now();
    let socket;
    try {
      socket = await bridge.socket(bridge.url);
      const link = new Link(socket);
      await within(OPENED_WITHIN, link.opened, "no connection");
      return link;
    } catch (error) {
      if (error instanceof ConnectionRefusedForGood) throw error;
      socket?.close();
      const found = await diagnose(bridge.url, bridge.pin);
      if (found instanceof BridgeError) throw found;
      const quick = bridge.now() - begun < QUICK && found !== "ECONNREFUSED";
      const why = found === "ECONNREFUSED" ? "nothing listens there: has the run or the server been started?" : error.message;
      throw new LinkLost("CONN_CONNECT_FAILED", `${bridge.url}: ${why}`, quick);
    }
  }

  constructor(socket) {
    this.socket = socket;
    this.opened = new Promise((done, failed) => {
      socket.onopen = done;
      socket.onmessage = ({ data }) => this.#put(() => this.came.push(data));
      socket.onerror = (event) => {
        failed(new Error(event.error?.message || event.message || "the connection failed"));
        this.#end(1006, "");
      };
      socket.onclose = ({ code, reason }) => {
        failed(new Error(`the connection was closed (${code})`));
        this.#end(code, reason);
      };
    });
  }

  #put(change) {
    change();
    this.wake();
  }

  #end(code, reason = "") {
    if (this.lost) return;
    const said = `the connection was closed (${code}${reason && `, ${reason}`})`;
    const final = /^(AUTH_|CONN_SUPERSEDED)/.test(reason);
    const kind = reason.split(/[ :]/)[0];
    const loss = final ? new ConnectionRefusedForGood(kind, said) : new LinkLost("CONN_WEBSOCKET_CLOSED", said, true);
    this.#put(() => (this.lost = loss));
  }

  send(text) {
    if (!this.lost) this.socket.send(text);
  }

  /** The next message. After a silence, `ask` is called once; after another, the connection counts as lost. */
  async receive(ask = () => {}) {
    let asked = false;
    const silence = () => {
      if (asked) {
        this.#put(() => (this.lost ??= new LinkLost("CONN_WEBSOCKET_CLOSED", "the server is silent", false)));
        this.close();
      } else ask();
      asked = true;
    };
    const timer = setInterval(silence, ALIVE * 1000);
    try {
      while (!this.came.length && !this.lost) await new Promise((wake) => (this.wake = wake));
    } finally {
      clearInterval(timer);
    }
    if (this.came.length) return this.came.shift();
    throw this.lost;
  }

  close() {
    this.#end(1000, "closed here");
    this.socket.close();
  }
}

function bridgeUrl(address) {
  const url = new URL(address);
  url.protocol = { "http:": "ws:", "https:": "wss:" }[url.protocol] ?? url.protocol;
  if (!["ws:", "wss:"].includes(url.protocol)) throw new TypeError(`url: expected ws://..., found ${address}`);
  if (url.pathname === "/") url.pathname = "/bridge";
  return url.href;
}

function readPin(pin) {
  const digits = pin.replace(/^sha256:/, "").replaceAll(":", "").toLowerCase();
  if (pin && !/^[0-9a-f]{64}$/.test(digits)) throw new TypeError(`pin: expected 64 hexadecimal digits, found ${pin}`);
  return digits;
}

async function within(seconds, work, otherwise) {
  let timer;
  const late = new Promise((_, failed) => {
    timer = setTimeout(() => failed(new LinkLost("CONN_CONNECT_FAILED", otherwise, false)), seconds * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

// What differs between browsers and Node.

const inNode = typeof process !== "undefined" && Boolean(process.versions?.node);

async function openSocket(url, pin) {
  if (!globalThis.WebSocket) {
    throw new ConnectionRefusedForGood(
      "CONN_NO_WEBSOCKET",
      "this Node has no WebSocket: take Node 22, or start Node 20 with --experimental-websocket",
    );
  }
  return pin ? new WebSocket(url, { dispatcher: await pinned(pin) }) : new WebSocket(url);
}

/** A dispatcher of Node's own HTTP client that accepts one certificate alone. */
async function pinned(pin) {
  if (!inNode) throw new ConnectionRefusedForGood("CONN_TLS_HANDSHAKE_FAILED", "browsers cannot pin a certificate");
  const tls = await import("node:tls");
  await fetch("data:,"); // this makes the dispatcher, whose class is not exported
  const symbols = ["undici.globalDispatcher.2", "undici.globalDispatcher.1"];
  const Agent = symbols.map((each) => globalThis[Symbol.for(each)]).find(Boolean).constructor;
  const connect = ({ hostname, port }, done) => {
    const socket = tls.connect({ host: hostname, port: port || 443, rejectUnauthorized: false });
    socket.once("error", (error) => done(error, null));
    socket.once("secureConnect", () => {
      const refused = refusedPin(socket.getPeerCertificate(), pin);
      if (refused) socket.destroy(refused);
      else done(null, socket);
    });
  };
  return new Agent({ connect });
}

const REASONS = {
  CERT_HAS_EXPIRED: ["CERTIFICATE_EXPIRED", "the certificate has expired", "regenerate_certificates"],
  CERT_NOT_YET_VALID: ["CERTIFICATE_NOT_YET_VALID", "the certificate is not valid yet", "check_the_clocks"],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    "HOSTNAME_MISMATCH", "the certificate is for another host", "connect_by_the_certificates_name",
  ],
  DEPTH_ZERO_SELF_SIGNED_CERT: ["SELF_SIGNED", "the certificate is self-signed", "pin_the_certificate"],
  SELF_SIGNED_CERT_IN_CHAIN: ["SELF_SIGNED", "the certificate is self-signed", "pin_the_certificate"],
  PIN_MISMATCH: ["PIN_MISMATCH", "the certificate is not the pinned one", "confirm_the_pin"],
  HANDSHAKE_FAILED: ["HANDSHAKE_FAILED", "the server does not speak TLS as expected", "check_the_scheme"],
};
const UNKNOWN = ["UNKNOWN_ISSUER", "the certificate's issuer is not known here", "install_the_issuers_certificate"];

function tlsRefusal(problem, certificate) {
  const [reason, meaning, suggested_action] = REASONS[problem] ?? UNKNOWN;
  const expiry = certificate?.valid_to ? new Date(certificate.valid_to).toISOString().replace(/\.\d+Z$/, "Z") : null;
  const fingerprint = certificate?.fingerprint256 ? readPin(certificate.fingerprint256) : null;
  const details = { reason, expiry, fingerprint, suggested_action };
  return new ConnectionRefusedForGood("CONN_TLS_HANDSHAKE_FAILED", `TLS certificate validation failed: ${meaning}`, details);
}

function refusedPin(certificate, pin) {
  if (readPin(certificate.fingerprint256 ?? "") !== pin) return tlsRefusal("PIN_MISMATCH", certificate);
  return isOver(certificate) ? tlsRefusal("CERT_HAS_EXPIRED", certificate) : null;
}

const isOver = (certificate) => new Date(certificate.valid_to) < new Date();

/** Why a connection failed, which a WebSocket does not say: a refusal, the code of an error, or nothing. */
async function diagnose(address, pin) {
  if (!inNode) return null;
  const { hostname, port, protocol } = new URL(address);
  const secure = protocol === "wss:";
  const { connect } = await import(secure ? "node:tls" : "node:net");
  const host = hostname.replace(/^\[|\]$/g, "");
  const options = { host, port: Number(port) || (secure ? 443 : 80), rejectUnauthorized: false, timeout: 2000 };
  return new Promise((done) => {
    const socket = connect(options);
    const end = (found) => (socket.destroy(), done(found));
    socket.once("error", (error) => end(error.code?.startsWith("ERR_SSL") ? tlsRefusal("HANDSHAKE_FAILED") : error.code));
    socket.once("timeout", () => end("ETIMEDOUT"));
    socket.once("connect", () => secure || end(null));
    socket.once("secureConnect", () => {
      const certificate = socket.getPeerCertificate();
      if (pin) return end(refusedPin(certificate, pin));
      const name = socket.authorizationError?.code ?? socket.authorizationError;
      end(name ? tlsRefusal(isOver(certificate) ? "CERT_HAS_EXPIRED" : name, certificate) : null);
    });
  });
}
