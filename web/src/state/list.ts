// The list of sessions: pages of `session/list`, kept up to date by a subscription.

import { computed, signal, type Signal } from "@preact/signals";
import { at, fields, list, number, text, type Json, type JsonObject } from "../core/json.ts";
import { stateOf, type SessionState } from "../core/standing.ts";
import { onNotified, onReady, request } from "./link.ts";
import { say } from "./notices.ts";

export interface SessionRow {
  id: string;
  title: string | undefined;
  cwd: string;
  updatedAt: string | undefined;
  archived: boolean;
  state: SessionState;
  agent: string;
  clients: number;
  owner: { pid: number | undefined; host: string | undefined } | undefined;
  turns: number | undefined;
  question: string | undefined;
}

export type Archived = "exclude" | "only";

export function readRow(value: Json): SessionRow | undefined {
  const row = fields(value);
  const id = text(row["sessionId"]);
  if (id === undefined) return undefined;
  const own = fields(at(row, "_meta", "rethread"));
  const owner = own["owner"];
  const question = own["question"];
  return {
    id,
    title: text(row["title"]),
    cwd: text(row["cwd"]) ?? "",
    updatedAt: text(row["updatedAt"]),
    archived: row["archived"] === true || own["archived"] === true,
    state: stateOf(own["state"]),
    agent: text(own["agentName"]) ?? text(own["agent"]) ?? "",
    clients: number(own["clients"]) ?? 0,
    owner: owner ? { pid: number(at(owner, "pid")), host: text(at(owner, "host")) } : undefined,
    turns: number(own["turns"]),
    question: question ? (text(at(question, "title")) ?? "A question") : undefined,
  };
}

/** A list of sessions: all of them, or those of one project. */
export class SessionList {
  readonly #byId: Signal<ReadonlyMap<string, SessionRow>> = signal(new Map());
  /** Newest first. */
  readonly rows = computed(() =>
    [...this.#byId.value.values()].sort(
      (one, other) => (other.updatedAt ?? "").localeCompare(one.updatedAt ?? "") || one.id.localeCompare(other.id),
    ),
  );
  readonly loading = signal(true);
  readonly complete = signal(false);
  readonly failed = signal<string | undefined>(undefined);
  #cursor: string | undefined;
  #subscription: string | undefined;
  #generation = 0;
  #ends: (() => void)[] = [];

  constructor(
    readonly cwd: string | undefined,
    readonly archived: Archived,
  ) {}

  open(): void {
    this.#ends = [
      onNotified((method, params) => method === "_rethread/list/changes" && this.#changed(params)),
      onReady(() => void this.#begin()),
    ];
  }

  close(): void {
    this.#ends.forEach((end) => end());
    this.#generation++;
    if (this.#subscription !== undefined) {
      request("_rethread/list/unsubscribe", { subscriptionId: this.#subscription }).catch(() => {});
    }
  }

  row(id: string): SessionRow | undefined {
    return this.#byId.value.get(id);
  }

  /** Loads the next page. */
  async more(): Promise<void> {
    if (this.loading.value || this.complete.value) return;
    await this.#page(this.#generation, this.#byId.value);
  }

  /** Changes a row before the server says so, and gives what it was. */
  expect(id: string, change: Partial<SessionRow>): void {
    const row = this.row(id);
    if (row !== undefined) this.#put([{ ...row, ...change }], []);
  }

  forget(id: string): void {
    this.#put([], [id]);
  }

  async #begin(): Promise<void> {
    const generation = ++this.#generation;
    this.#cursor = undefined;
    this.complete.value = false;
    const filter = this.cwd === undefined ? {} : { cwd: this.cwd };
    try {
      // Subscribed before the list is read, so that nothing falls between.
      const answer = await request("_rethread/list/subscribe", { ...filter, archived: this.archived });
      this.#subscription = text(at(answer, "subscriptionId"));
    } catch {
      this.#subscription = undefined;
    }
    await this.#page(generation, new Map());
  }

  async #page(generation: number, known: ReadonlyMap<string, SessionRow>): Promise<void> {
    this.loading.value = true;
    try {
      const params: JsonObject = { archived: this.archived };
      if (this.cwd !== undefined) params["cwd"] = this.cwd;
      if (this.#cursor !== undefined) params["cursor"] = this.#cursor;
      const answer = await request("session/list", params);
      if (generation !== this.#generation) return;
      const rows = new Map(known);
      for (const value of list(at(answer, "sessions"))) {
        const row = readRow(value);
        if (row !== undefined) rows.set(row.id, row);
      }
      this.#byId.value = rows;
      this.#cursor = text(at(answer, "nextCursor"));
      this.complete.value = this.#cursor === undefined;
      this.failed.value = undefined;
    } catch (error) {
      if (generation === this.#generation) this.failed.value = (error as Error).message;
    } finally {
      if (generation === this.#generation) this.loading.value = false;
    }
  }

  #changed(params: JsonObject): void {
    if (this.#subscription === undefined || params["subscriptionId"] !== this.#subscription) return;
    const rows = list(params["sessions"]).flatMap((value) => readRow(value) ?? []);
    this.#put(rows, list(params["removed"]).flatMap((id) => text(id) ?? []));
  }

  #put(rows: SessionRow[], removed: string[]): void {
    const next = new Map(this.#byId.value);
    for (const row of rows) {
      if (row.archived === (this.archived === "only")) next.set(row.id, row);
      else next.delete(row.id);
    }
    removed.forEach((id) => next.delete(id));
    this.#byId.value = next;
  }
}

/** The sessions that are not archived, for all pages. */
export const sessions = new SessionList(undefined, "exclude");
/** The sessions with a question, for the title of the page. */
export const asking = computed(() => sessions.rows.value.filter((row) => row.state === "waiting" || row.question).length);

/** Archives, brings back or deletes a session. */
export async function dispose(id: string, how: "archive" | "unarchive" | "delete"): Promise<boolean> {
  try {
    await request(`session/${how}`, { sessionId: id });
  } catch (error) {
    say("error", `It could not be done: ${(error as Error).message}`);
    return false;
  }
  if (how !== "unarchive") sessions.forget(id);
  return true;
}

export async function rename(id: string, title: string): Promise<string | undefined> {
  try {
    const stored = text(at(await request("session/set_title", { sessionId: id, title }), "title")) ?? title;
    sessions.expect(id, { title: stored });
    return stored;
  } catch (error) {
    say("error", `It could not be renamed: ${(error as Error).message}`);
    return undefined;
  }
}
