// A server with scripted agents in a folder of its own, clients on its socket, and a browser. Everything ends with the stage.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const profile = process.env.RETHREAD_PROFILE ?? "debug";
export const program = join(root, "target", profile, "rethread");
const agent = join(root, "target", profile, "examples/scripted_agent");
export const BROWSER = process.env.RETHREAD_BROWSER ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export function launch(more = []) {
  return chromium.launch({ executablePath: BROWSER, headless: true, args: [...FLAGS, ...more] });
}

/** Waits until this gives something, and gives that. */
export async function until(what, look, limit = 20_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${limit} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

export class Stage {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "rethread-browser-"));
    this.home = join(this.folder, "home");
    this.project = join(this.folder, "work", "lighthouse");
    this.children = new Set();
    mkdirSync(this.home);
    mkdirSync(this.project, { recursive: true });
    const bin = join(this.folder, "bin");
    mkdirSync(bin);
    // Stands for the user's browser: what it is asked to open is written down.
    writeFileSync(join(bin, "xdg-open"), `#!/bin/sh\nprintf %s "$1" > "${this.folder}/opened"\n`);
    chmodSync(join(bin, "xdg-open"), 0o755);
    this.env = { ...process.env, RETHREAD_HOME: this.home, PATH: `${bin}:${process.env.PATH}`, XDG_RUNTIME_DIR: "" };
    const words = (...flags) => JSON.stringify([agent, ...flags]);
    const config = `default_agent = "scripted"\n[agents.scripted]\ncommand = ${words("--protocol", "2", "--options")}\n[agents.older]\ncommand = ${words("--protocol", "1")}\n[serve]\nroots = [${JSON.stringify(this.folder)}]\n`;
    writeFileSync(join(this.home, "config.toml"), config);
  }

  run(...words) {
    const ran = spawnSync(program, words, { env: this.env, encoding: "utf8", cwd: this.project });
    if (ran.status !== 0) throw new Error(`rethread ${words.join(" ")}: ${ran.stderr}`);
    return ran.stdout.trim();
  }

  async serve(port = 0) {
    const child = this.child(spawn(program, ["serve", "--listen", `127.0.0.1:${port}`, "--stop-seconds", "1"], { env: this.env, stdio: ["ignore", "pipe", "pipe"] }));
    let said = "";
    child.stdout.on("data", (data) => (said += data));
    child.stderr.on("data", (data) => (said += data));
    const found = await until("the server listens", () => {
      if (child.exitCode !== null) throw new Error(`the server ended: ${said}`);
      return /http:\/\/127\.0\.0\.1:(\d+)/.exec(said);
    });
    this.port = Number(found[1]);
    if (process.env.RETHREAD_FRESH_PAGE) this.front ??= await freshFront(this);
    this.url = this.front ?? found[0];
    this.server = child;
    return this;
  }

  async stop() {
    const ended = new Promise((resolve) => this.server.once("exit", resolve));
    this.server.kill("SIGTERM");
    await ended;
  }

  async kill() {
    const ended = new Promise((resolve) => this.server.once("exit", resolve));
    this.server.kill("SIGKILL");
    await ended;
  }

  token(role = "full") {
    return this.run("token", "new", "test", "--role", role);
  }

  /** The address that `rethread web` opens, with its code. */
  address() {
    rmSync(join(this.folder, "opened"), { force: true });
    this.run("web");
    return readFileSync(join(this.folder, "opened"), "utf8").replace(/^http:\/\/[^/]*/, this.url);
  }

  /** A client on the unix socket, as an editor is. */
  async client(...words) {
    const child = this.child(spawn(program, ["acp", ...words], { env: this.env, stdio: ["pipe", "pipe", "inherit"], cwd: this.project }));
    const client = new Client(child, this.project);
    await client.request("initialize", { protocolVersion: 2, info: { name: "editor", version: "1" }, capabilities: {} });
    return client;
  }

  child(child) {
    this.children.add(child);
    child.once("exit", () => this.children.delete(child));
    return child;
  }

  async end() {
    const all = [...this.children];
    const ended = all.map((child) => new Promise((resolve) => child.once("exit", resolve)));
    all.forEach((child) => child.kill("SIGTERM"));
    const late = setTimeout(() => all.forEach((child) => child.kill("SIGKILL")), 5_000);
    await Promise.all(ended);
    clearTimeout(late);
    if (existsSync(this.folder)) rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const dist = join(root, "web/dist");
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

/** For work on the page: a server in front, with files from web/dist and the headers of the real one, so that the program need not be built again. */
async function freshFront(stage) {
  const { headers } = await fetch(`http://127.0.0.1:${stage.port}`);
  const kept = Object.fromEntries([...headers].filter(([name]) => !/^(content-(length|encoding|type)|etag|cache-control|date)$/.test(name)));
  const front = createServer((asked, answer) => {
    const path = asked.url.split("?")[0];
    const file = join(dist, path === "/" ? "index.html" : path);
    if (existsSync(file)) {
      answer.writeHead(200, { ...kept, "content-type": TYPES[file.split(".").pop()] });
      return answer.end(readFileSync(file));
    }
    const passed = request({ port: stage.port, host: "127.0.0.1", path: asked.url, method: asked.method, headers: asked.headers }, (got) => {
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    asked.pipe(passed);
  });
  front.on("upgrade", (asked, socket, head) => {
    const behind = connect(stage.port, "127.0.0.1", () => {
      behind.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${asked.rawHeaders.map((word, at) => (at % 2 === 0 ? `${word}: ` : `${word}\r\n`)).join("")}\r\n`);
      behind.write(head);
      socket.pipe(behind).pipe(socket);
    });
    for (const [one, other] of [[socket, behind], [behind, socket]]) one.on("error", () => other.destroy()).on("close", () => other.destroy());
  });
  await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));
  front.unref();
  return `http://127.0.0.1:${front.address().port}`;
}

/** A client that speaks lines of JSON. */
class Client {
  constructor(child, cwd) {
    this.child = child;
    this.cwd = cwd;
    this.next = 1;
    this.waiting = new Map();
    this.updates = [];
    this.requests = [];
    createInterface({ input: child.stdout }).on("line", (line) => this.take(JSON.parse(line)));
  }

  take(message) {
    if (message.method === undefined) {
      const { resolve, reject } = this.waiting.get(message.id) ?? {};
      if (message.error) reject?.(new Error(JSON.stringify(message.error)));
      else resolve?.(message.result);
    } else if (message.id !== undefined) {
      this.requests.push(message);
    } else if (message.method === "session/update") {
      this.updates.push(message.params);
    }
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  request(method, params) {
    const id = this.next++;
    this.send({ id, method, params });
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async session(cwd = this.cwd) {
    mkdirSync(cwd, { recursive: true });
    return (await this.request("session/new", { cwd, mcpServers: [] })).sessionId;
  }

  /** Sends a prompt and waits for the end of its turn. */
  async prompt(session, text) {
    await this.begin(session, text);
    await this.idle(session);
  }

  async begin(session, text) {
    this.updates = this.updates.filter(({ update }) => update.sessionUpdate !== "state_update");
    await this.request("session/prompt", { sessionId: session, prompt: [{ type: "text", text }] });
  }

  idle(session) {
    return until("the turn ends", () => this.updates.some(({ sessionId, update }) => sessionId === session && update.state === "idle" && update.stopReason));
  }

  answer(request, result) {
    this.send({ id: request.id, result });
  }
}
