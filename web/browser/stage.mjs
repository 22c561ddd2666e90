// A server with scripted agents in a folder of its own, clients on its socket, and a browser. Everything ends with the stage.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { pageFront } from "./fronts.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const profile = process.env.RETHREAD_PROFILE ?? "debug";
/** `RETHREAD_PROGRAM` names another one. */
export const program = process.env.RETHREAD_PROGRAM ?? join(root, "target", profile, "rethread");
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
  /** `agents` are the commands of further agents, by name; `work` is the folder of the projects. */
  constructor(agents = {}, work = undefined) {
    this.folder = mkdtempSync(join(tmpdir(), "rethread-browser-"));
    this.home = join(this.folder, "home");
    this.work = work ?? join(this.folder, "work");
    this.project = join(this.work, "lighthouse");
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
    const further = Object.entries(agents).map(([name, command]) => `[agents.${name}]\ncommand = ${JSON.stringify(command)}\n`).join("");
    const config = `default_agent = "scripted"\n[agents.scripted]\ncommand = ${words("--protocol", "2", "--options")}\n[agents.older]\ncommand = ${words("--protocol", "1")}\n${further}[serve]\nroots = ${JSON.stringify([this.folder, this.work])}\n`;
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
    if (process.env.RETHREAD_FRESH_PAGE) this.front ??= await pageFront(this, join(root, "web/dist"));
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
    rmSync(this.work, { recursive: true, force: true, maxRetries: 5 });
    if (existsSync(this.folder)) rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
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
