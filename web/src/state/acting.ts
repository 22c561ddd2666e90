// What the user does in a session: prompts, cancels, chooses options, forks, exports. The first of it attaches to the session,
// without its updates, which the page follows already.

import { at, text, type Json, type JsonObject } from "../core/json.ts";
import { ConnectionLost, RpcError } from "../core/rpc.ts";
import { readOptions } from "../core/standing.ts";
import { notify, request } from "./link.ts";
import { sessions } from "./list.ts";
import { say } from "./notices.ts";
import type { SentPrompt, SessionStore } from "./session.ts";

const attaching = new WeakMap<SessionStore, Promise<void>>();
let nextPrompt = 1;
/** The directories of sessions that were made here: they are in no list before their first prompt. */
const made = new Map<string, string>();

/** Attaches to the session: starts its agent if it does not run. */
export function attach(store: SessionStore): Promise<void> {
  if (store.attached.value) return Promise.resolve();
  const under = attaching.get(store);
  if (under !== undefined) return under;
  const work = resume(store).finally(() => attaching.delete(store));
  attaching.set(store, work);
  return work;
}

async function resume(store: SessionStore): Promise<void> {
  const cwd = await cwdOf(store);
  const params = { sessionId: store.id, cwd, mcpServers: [], _meta: { rethread: { updates: false } } };
  const answer = await request("session/resume", params);
  store.attached.value = true;
  store.refusal.value = undefined;
  const options = at(answer, "configOptions");
  if (Array.isArray(options)) store.standing.value = { ...store.standing.value, options: readOptions(options) };
}

async function cwdOf(store: SessionStore): Promise<string> {
  const known = store.outline.value?.cwd ?? sessions.row(store.id)?.cwd ?? made.get(store.id);
  return known ?? text(at(await request("_rethread/outline", { sessionId: store.id }), "cwd")) ?? "/";
}

/**
 * Attaches to a session that is at work, so that its questions are asked here, too. Somebody else may own it: then it is only read. An
 * observer claims nothing by this.
 */
export function attachQuietly(store: SessionStore): void {
  if (store.attached.value || store.refusal.value !== undefined) return;
  attach(store).catch((error: unknown) => {
    if (error instanceof RpcError) store.refusal.value = error.message;
  });
}

/** Sends a prompt. If the connection breaks meanwhile, what became of it is found out, and it is not sent again. */
export async function prompt(store: SessionStore, said: string, images: JsonObject[]): Promise<void> {
  const sent: SentPrompt = { id: nextPrompt++, text: said, images, after: store.seen, state: "sending" };
  store.sent.value = [...store.sent.value, sent];
  const without = () => store.sent.value.filter((one) => one.id !== sent.id);
  try {
    await attach(store);
  } catch (error) {
    // Nothing was sent yet.
    store.sent.value = without();
    store.returned.value = sent;
    return failed("The prompt was not sent", error);
  }
  const blocks: JsonObject[] = said === "" ? images : [{ type: "text", text: said }, ...images];
  try {
    await request("session/prompt", { sessionId: store.id, prompt: blocks });
    store.sent.value = without();
  } catch (error) {
    if (error instanceof ConnectionLost) {
      store.sent.value = store.sent.value.map((one) => (one.id === sent.id ? { ...one, state: "unknown" } : one));
      return;
    }
    store.sent.value = without();
    store.returned.value = sent;
    failed("The prompt was refused", error);
  }
}

export async function cancel(store: SessionStore): Promise<void> {
  try {
    await attach(store);
    notify("session/cancel", { sessionId: store.id });
  } catch (error) {
    failed("The turn was not cancelled", error);
  }
}

export async function setOption(store: SessionStore, id: string, value: string | boolean): Promise<void> {
  const before = store.standing.value;
  const options = before.options.map((option) => (option.id === id ? { ...option, value } : option));
  store.standing.value = { ...before, options };
  try {
    await attach(store);
    const type = typeof value === "boolean" ? "boolean" : "id";
    const answer = await request("session/set_config_option", { sessionId: store.id, configId: id, type, value });
    const now = at(answer, "configOptions");
    if (Array.isArray(now)) store.standing.value = { ...store.standing.value, options: readOptions(now) };
  } catch (error) {
    store.standing.value = { ...store.standing.value, options: before.options };
    failed("The option was not changed", error);
  }
}

/** Makes a session that begins as this one, up to and with a message. Gives its id. */
export async function fork(store: SessionStore, message: string | undefined): Promise<string | undefined> {
  const own: JsonObject = message === undefined ? { updates: false } : { updates: false, atMessage: message };
  try {
    const cwd = await cwdOf(store);
    return text(at(await request("session/fork", { sessionId: store.id, cwd, mcpServers: [], _meta: { rethread: own } }), "sessionId"));
  } catch (error) {
    failed("The session was not forked", error);
    return undefined;
  }
}

/** Makes a new session. Gives its id. */
export async function begin(cwd: string, agent: string | undefined): Promise<string | undefined> {
  const own: JsonObject = agent === undefined ? { updates: false } : { updates: false, agent };
  try {
    const session = text(at(await request("session/new", { cwd, mcpServers: [], _meta: { rethread: own } }), "sessionId"));
    if (session !== undefined) made.set(session, cwd);
    return session;
  } catch (error) {
    failed("The session was not made", error);
    return undefined;
  }
}

export type ExportFormat = "markdown" | "html" | "jsonl";

export async function exported(session: string, format: ExportFormat): Promise<string | undefined> {
  const pieces: string[] = [];
  let cursor: Json | undefined;
  try {
    do {
      const params: JsonObject = { sessionId: session, format };
      if (cursor !== undefined) params["cursor"] = cursor;
      const answer = await request("_rethread/export", params);
      pieces.push(text(at(answer, "text")) ?? "");
      cursor = at(answer, "nextCursor") ?? undefined;
    } while (cursor !== undefined);
    return pieces.join("");
  } catch (error) {
    failed("The session was not exported", error);
    return undefined;
  }
}

function failed(what: string, error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  const hint = error instanceof RpcError && error.hint !== undefined ? ` (${error.hint})` : "";
  say("error", `${what}: ${why}${hint}`);
}
