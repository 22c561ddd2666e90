// The connection of the page to its server: signing in, connecting, connecting again after a break. What is lost with a connection
// (subscriptions, attachments) is made again by those who listen to `onReady`.

import { signal } from "@preact/signals";
import { readSecret } from "../core/address.ts";
import { at, fields, list, text, type Json, type JsonObject } from "../core/json.ts";
import { backoff, ConnectionLost, Peer, RpcError, type IncomingRequest } from "../core/rpc.ts";
import { load, save } from "../core/storage.ts";

/** What the page is connected to. */
export interface Hello {
  version: string;
  role: "full" | "observer";
  /** The only session of a shared view. */
  session: string | undefined;
  agents: string[];
  /** What the connection's agent takes in prompts. */
  images: boolean;
  offers: (name: string) => boolean;
}

export type LinkPhase =
  | { phase: "connecting" }
  | { phase: "ready" }
  /** Lost; tries again by itself. */
  | { phase: "lost"; reason: string }
  /** Cannot go on without the user. */
  | { phase: "signed-out"; reason: string };

export const link = signal<LinkPhase>({ phase: "connecting" });
export const hello = signal<Hello | undefined>(undefined);
/** Says that the server is of another version than the page, and what to do. */
export const otherVersion = signal<string | undefined>(undefined);

type Ready = () => void;
type Notified = (method: string, params: JsonObject) => void;
type Asked = (request: IncomingRequest) => void;

const ready = new Set<Ready>();
const notified = new Set<Notified>();
let asked: Asked = (request) => request.refuse(-32601, "the page does not know this method");
let withdrawn: (id: string | number) => void = () => {};

let token: string | undefined;
let peer: Peer | undefined;
let attempt = 0;
/** The version of the server that the page was opened with. */
let firstVersion: string | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Calls this whenever a connection is ready, at once if it is now. Gives what ends that. */
export function onReady(call: Ready): () => void {
  ready.add(call);
  if (link.value.phase === "ready") call();
  return () => ready.delete(call);
}

export function onNotified(call: Notified): () => void {
  notified.add(call);
  return () => notified.delete(call);
}

export function answerQuestions(handlers: { asked: Asked; withdrawn: (id: string | number) => void }): void {
  asked = handlers.asked;
  withdrawn = handlers.withdrawn;
}

/** Sends a request on the current connection. Fails if there is none, or if it breaks before the answer. */
export function request(method: string, params: JsonObject): Promise<Json> {
  return peer === undefined || link.value.phase !== "ready"
    ? Promise.reject(new ConnectionLost())
    : peer.request(method, params);
}

export function notify(method: string, params: JsonObject): void {
  if (link.value.phase === "ready") peer?.notify(method, params);
}

/** Reads the secret that the page was opened with, and connects. */
export async function start(): Promise<void> {
  const { secret, rest } = readSecret(location.hash);
  if (secret !== undefined) history.replaceState(null, "", `${location.pathname}#${rest}`);
  if (secret?.kind === "token") keep(secret.token);
  else if (secret?.kind === "code" && !(await exchange(secret.code))) return;
  token ??= load("session", "token");
  if (token === undefined) return signedOut("To open this page, run `rethread web` in a terminal.");
  window.addEventListener("online", () => hurry());
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && hurry());
  void connect();
}

/** Signs in with a token that the user has typed in. */
export function signIn(typed: string): void {
  keep(typed.trim());
  link.value = { phase: "connecting" };
  void connect();
}

function keep(value: string | undefined): void {
  token = value;
  save("session", "token", value);
}

async function exchange(code: string): Promise<boolean> {
  try {
    const response = await fetch("/code", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    const answer = fields(await response.json().catch(() => ({})));
    const made = text(answer["token"]);
    if (response.ok && made !== undefined) {
      keep(made);
      return true;
    }
    signedOut(text(answer["error"]) ?? "The link was used already, or is older than two minutes. Run `rethread web` again.");
  } catch {
    signedOut("The server does not answer. Start it with `rethread serve`, then run `rethread web` again.");
  }
  return false;
}

function signedOut(reason: string): void {
  clearTimeout(timer);
  keep(undefined);
  link.value = { phase: "signed-out", reason };
}

function hurry(): void {
  if (link.value.phase !== "lost") return;
  attempt = 0;
  again(0);
}

function again(after: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void connect(), after);
}

/** Asks first whether the server is there and takes the token: a WebSocket does not say why it was refused. */
async function connect(): Promise<void> {
  clearTimeout(timer);
  const used = token;
  if (used === undefined) return;
  let status: number;
  try {
    const headers = { authorization: `Bearer ${used}` };
    status = (await fetch("/readyz", { headers, cache: "no-store", signal: AbortSignal.timeout(10_000) })).status;
  } catch {
    return lost("The server does not answer.");
  }
  if (used !== token || link.value.phase === "ready") return;
  if (status === 401) {
    return signedOut("This link or token does not work any more: it has expired or was revoked. Ask for a new one, or run `rethread web`.");
  }
  if (status === 429) return lost("The server refuses connections for a minute, after too many wrong tokens.");
  if (status !== 200) return lost(`The server is not ready (${status}).`);
  open(used);
}

function open(used: string): void {
  const address = new URL("/acp", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(address, ["acp.v2", `rethread-bearer.${base64url(used)}`]);
  const here = new Peer(socket as never, {
    notified: (method, params) => notified.forEach((call) => call(method, params)),
    asked: (incoming) => asked(incoming),
    withdrawn: (id) => withdrawn(id),
    closed: (_, reason) => {
      if (peer !== here) return;
      peer = undefined;
      lost(reason || "The connection to the server was lost.");
    },
  });
  peer = here;
  socket.onopen = () => void initialize(here);
}

async function initialize(here: Peer): Promise<void> {
  const params = {
    protocolVersion: 2,
    info: { name: "rethread-web", title: "Web page", version: "1" },
    capabilities: { elicitation: { form: {}, url: {} } },
  };
  try {
    const answer = await here.request("initialize", params);
    const said = readHello(answer);
    if (!said.offers("read") || !said.offers("follow")) {
      otherVersion.value = "Reload the page. If that does not help, update Rethread on the server's machine.";
      return refused("The server is of another version than this page.");
    }
    void compare(said.version);
    hello.value = said;
  } catch (error) {
    if (error instanceof RpcError) refused(`The server refused the connection: ${error.message}`);
    return;
  }
  attempt = 0;
  link.value = { phase: "ready" };
  ready.forEach((call) => call());
}

/**
 * A server that was replaced while the page was open may serve another page than this one, which may not understand all that it
 * says. The start of the page names the script of its build.
 */
async function compare(version: string): Promise<void> {
  firstVersion ??= version;
  const isOther = firstVersion !== version || !(await servesThisPage());
  const words = `The server is now of another version (${version}). Reload the page to use it; what you have written is kept.`;
  otherVersion.value = isOther ? words : undefined;
}

async function servesThisPage(): Promise<boolean> {
  const script = document.querySelector<HTMLScriptElement>("script[src]")?.getAttribute("src");
  if (script === null || script === undefined) return true;
  try {
    const start = await fetch("/", { cache: "no-cache", signal: AbortSignal.timeout(10_000) });
    return !start.ok || (await start.text()).includes(`"${script}"`);
  } catch {
    // It is asked again with the next connection.
    return true;
  }
}

function refused(reason: string): void {
  const ended = peer;
  peer = undefined;
  ended?.close();
  attempt = Math.max(attempt, 5);
  lost(reason);
}

function lost(reason: string): void {
  if (link.value.phase === "signed-out") return;
  link.value = { phase: "lost", reason };
  again(backoff(attempt++, Math.random));
}

function readHello(answer: Json): Hello {
  const own = fields(at(answer, "_meta", "rethread"));
  const version = text(own["version"]) ?? text(at(answer, "info", "version")) ?? "";
  return {
    version,
    role: own["role"] === "observer" ? "observer" : "full",
    session: text(own["session"]),
    agents: list(own["agents"]).flatMap((name) => text(name) ?? []),
    images: fields(at(answer, "capabilities", "session", "prompt"))["image"] != null,
    offers: (name) => typeof own[name] === "object" && own[name] !== null,
  };
}

function base64url(value: string): string {
  const bytes = new TextEncoder().encode(value);
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
