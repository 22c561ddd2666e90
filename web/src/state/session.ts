// One session on the page: its timeline, read in pages and followed live, and what holds for it as a whole. Reading claims nothing;
// `acting.ts` attaches to the session.

import { computed, signal } from "@preact/signals";
import { itemText } from "../core/item.ts";
import { at, fields, isObject, list, number, text, type Json, type JsonObject } from "../core/json.ts";
import { ConnectionLost, RpcError } from "../core/rpc.ts";
import { standingAfter, standingAfterEvent, stateOf, UNKNOWN, type Standing } from "../core/standing.ts";
import { EMPTY, fromPage, readNewest, readPage, trimmed, withEntries, withNewer, withOlder, type Page, type Timeline } from "../core/timeline.ts";
import { onNotified, onReady, request } from "./link.ts";
import { announce } from "./notices.ts";

const PAGE = 60;
/** How long it takes from one showing of live entries to the next, in milliseconds. */
const SHORTEST_PAUSE = 30;
const LONGEST_PAUSE = 400;

export interface OutlineTurn {
  turn: number;
  seq: number;
  time: string | undefined;
  message: string | undefined;
  prompt: string;
  tools: number;
  stopReason: string | undefined;
}

export interface Outline {
  title: string | undefined;
  cwd: string;
  agents: string[];
  forkOf: string | undefined;
  turns: OutlineTurn[];
}

export interface AttachedClient {
  id: string;
  name: string;
  role: string;
  you: boolean;
}

/** A prompt that is on its way. */
export interface SentPrompt {
  id: number;
  text: string;
  images: JsonObject[];
  /** The last entry that was known when it was sent. */
  after: number;
  state: "sending" | "unknown";
}

export type Opening = { state: "loading" } | { state: "open" } | { state: "failed"; reason: string; gone: boolean };

export class SessionStore {
  readonly opening = signal<Opening>({ state: "loading" });
  readonly timeline = signal<Timeline>(EMPTY);
  readonly standing = signal<Standing>(UNKNOWN);
  readonly outline = signal<Outline | undefined>(undefined);
  readonly cwd = computed(() => this.outline.value?.cwd);
  readonly clients = signal<readonly AttachedClient[]>([]);
  readonly sent = signal<readonly SentPrompt[]>([]);
  /** Prompts that were not received: they go back into the box. */
  readonly returned = signal<SentPrompt | undefined>(undefined);
  readonly attached = signal(false);
  readonly refusal = signal<string | undefined>(undefined);
  /** How many entries came while the end was not looked at. */
  readonly below = signal(0);
  /** Whether the end is far from what is looked at. */
  readonly away = signal(false);
  /** The message to scroll to. */
  readonly target = signal<string | undefined>(undefined);
  /** The last entry that is known, whether it is in the window or not. */
  seen = 0;
  /** Whether the user looks at the end. */
  atEnd = true;

  #entries: JsonObject[] = [];
  #scheduled = false;
  #reading: Promise<void> | undefined;
  #ends: (() => void)[] = [];
  #outlineTimer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(readonly id: string) {}

  open(message: string | undefined): void {
    this.target.value = message;
    this.#ends = [
      onNotified((method, params) => params["sessionId"] === this.id && this.#notified(method, params)),
      onReady(() => void this.#begin()),
    ];
  }

  close(): void {
    this.#closed = true;
    this.#ends.forEach((end) => end());
    clearTimeout(this.#outlineTimer);
    request("_rethread/unfollow", { sessionId: this.id }).catch(() => {});
  }

  /** Reads the page before the window. */
  older(): Promise<void> {
    const first = this.timeline.value.items[0];
    if (!this.timeline.value.before || first === undefined) return Promise.resolve();
    return this.#extend({ before: first.seq }, (answer) => {
      this.timeline.value = withOlder(this.timeline.value, readPage(answer));
    });
  }

  /** Reads the page after the window. */
  newer(): Promise<void> {
    const { items, after } = this.timeline.value;
    const last = items.reduce((most, item) => Math.max(most, item.seq), 0);
    if (!after) return Promise.resolve();
    return this.#extend({ after: last }, (answer) => {
      this.timeline.value = withNewer(this.timeline.value, readPage(answer));
    });
  }

  /** Shows the end of the session. */
  async toEnd(): Promise<void> {
    if (this.timeline.value.after) {
      await this.#read({}, (answer) => {
        this.timeline.value = fromPage(readNewest(answer), this.timeline.value.waiting);
      });
    }
    this.timeline.value = trimmed(this.timeline.value);
    this.below.value = 0;
  }

  /** Shows a message, also one far away. */
  async toMessage(message: string): Promise<void> {
    if (!this.#has(message)) {
      await this.#read({ around: message }, (answer) => {
        this.timeline.value = fromPage(readPage(answer), this.timeline.value.waiting);
      });
    }
    this.target.value = message;
  }

  /** The whole of an item that was cut. */
  async whole(id: string): Promise<JsonObject | undefined> {
    const answer = await request("_rethread/read", { sessionId: this.id, around: id, limit: 1, whole: true });
    return list(at(answer, "items")).filter(isObject).at(0);
  }

  #has(message: string): boolean {
    return this.timeline.value.items.some((item) => item.id === message);
  }

  /** Reads one page at a time, so that pages are joined in order. */
  async #read(where: JsonObject, take: (answer: Json) => void): Promise<void> {
    while (this.#reading !== undefined) await this.#reading.catch(() => {});
    this.#reading = request("_rethread/read", { sessionId: this.id, limit: PAGE, ...where }).then(take);
    try {
      await this.#reading;
    } finally {
      this.#reading = undefined;
    }
  }

  /** Reads a page that nobody has asked for: the next look at the end of the window asks again if it fails. */
  async #extend(where: JsonObject, take: (answer: Json) => void): Promise<void> {
    if (this.#reading !== undefined) return;
    await this.#read(where, take).catch(() => {});
  }

  async #begin(): Promise<void> {
    this.attached.value = false;
    try {
      if (this.opening.value.state !== "open") await this.#first();
      await this.#follow();
      void this.#readOutline();
      void this.#readClients();
    } catch (error) {
      if (error instanceof ConnectionLost || this.#closed) return;
      const gone = error instanceof RpcError && error.code === -32002;
      const reason = gone ? "There is no such session here. It may have been deleted." : (error as Error).message;
      this.opening.value = { state: "failed", reason, gone };
    }
  }

  async #first(): Promise<void> {
    this.opening.value = { state: "loading" };
    const message = this.target.value;
    const take = (read: (answer: Json) => Page) => (answer: Json) => {
      this.timeline.value = fromPage(read(answer));
      this.seen = number(at(answer, "head")) ?? 0;
    };
    try {
      if (message === undefined) await this.#read({}, take(readNewest));
      else await this.#read({ around: message }, take(readPage));
    } catch (error) {
      if (message === undefined || !(error instanceof RpcError)) throw error;
      // A link to a message that is not there: the session is shown from its end.
      this.target.value = undefined;
      await this.#read({}, take(readNewest));
    }
    this.opening.value = { state: "open" };
  }

  async #follow(): Promise<void> {
    const answer = await request("_rethread/follow", { sessionId: this.id, after: this.seen });
    let standing = this.standing.value;
    for (const update of list(at(answer, "standing"))) standing = standingAfter(standing, fields(update));
    this.standing.value = standing;
    const head = number(at(answer, "head")) ?? 0;
    if (head <= this.seen) this.#settleSent();
    else this.#settleAt = head;
  }

  #settleAt: number | undefined;

  #notified(method: string, params: JsonObject): void {
    if (method === "_rethread/followed") {
      for (const entry of list(params["entries"])) if (isObject(entry)) this.#entries.push(entry);
      this.#schedule();
    } else if (method === "_rethread/clients_changed") {
      void this.#readClients();
    }
  }

  /**
   * Entries are shown together, however many there are: at once if none came before, and then as often as the eye can follow, or less
   * often if drawing takes long, so that the page has time for its user.
   */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const flush = () => {
      this.#scheduled = false;
      const begin = performance.now();
      this.#flush();
      // Drawing follows at once: what comes after it can tell how long it took.
      setTimeout(() => (this.#notBefore = begin + Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, 4 * (performance.now() - begin)))));
    };
    if (document.visibilityState === "visible") setTimeout(() => requestAnimationFrame(flush), Math.max(0, this.#notBefore - performance.now()));
    else setTimeout(flush, 250);
  }

  #notBefore = 0;

  #flush(): void {
    const entries = this.#entries;
    this.#entries = [];
    if (entries.length === 0 || this.#closed) return;
    let standing = this.standing.value;
    for (const entry of entries) {
      this.seen = Math.max(this.seen, number(entry["last"]) ?? number(entry["seq"]) ?? 0);
      if (text(entry["sessionId"]) !== undefined) continue;
      const event = entry["event"];
      standing = isObject(event) ? standingAfterEvent(standing, event) : standingAfter(standing, fields(entry["update"]));
    }
    this.timeline.value = withEntries(this.timeline.value, entries, this.atEnd ? "end" : "beginning");
    if (!this.atEnd) this.below.value += entries.length;
    if (standing.state !== this.standing.value.state) this.#stateChanged(standing);
    this.standing.value = standing;
    this.#received(entries);
  }

  #stateChanged(standing: Standing): void {
    if (standing.state === "idle") {
      const said = this.timeline.value.items.findLast((item) => item.subject === "agent");
      announce(`The agent has finished. ${said ? itemText(said).slice(0, 300) : ""}`);
    } else if (standing.state === "running") {
      announce("The agent is working.");
    }
    clearTimeout(this.#outlineTimer);
    this.#outlineTimer = setTimeout(() => void this.#readOutline(), 300);
  }

  /** Prompts whose answer was lost are found in the journal, or were not received. */
  #received(entries: JsonObject[]): void {
    if (this.#settleAt !== undefined && this.seen >= this.#settleAt) {
      this.#settleAt = undefined;
      this.#settleSent();
    } else if (entries.some((entry) => text(at(entry, "update", "sessionUpdate"))?.startsWith("user_message"))) {
      const arrived = (prompt: SentPrompt) => this.#arrived(prompt);
      this.sent.value = this.sent.value.filter((prompt) => prompt.state !== "unknown" || !arrived(prompt));
    }
  }

  #settleSent(): void {
    const unknown = this.sent.value.filter((prompt) => prompt.state === "unknown");
    this.sent.value = this.sent.value.filter((prompt) => prompt.state !== "unknown");
    const missing = unknown.find((prompt) => !this.#arrived(prompt));
    if (missing !== undefined) this.returned.value = missing;
  }

  #arrived(prompt: SentPrompt): boolean {
    const items = this.timeline.value.items;
    return items.some((item) => item.subject === "user" && item.seq > prompt.after && itemText(item) === prompt.text);
  }

  async #readOutline(): Promise<void> {
    try {
      const answer = fields(await request("_rethread/outline", { sessionId: this.id }));
      this.outline.value = readOutline(answer);
      if (this.standing.value.state === "unknown") {
        this.standing.value = { ...this.standing.value, state: stateOf(answer["state"]) };
      }
    } catch {
      // The session can be read without its outline.
    }
  }

  async #readClients(): Promise<void> {
    try {
      const answer = await request("_rethread/clients", { sessionId: this.id });
      this.clients.value = list(at(answer, "clients")).filter(isObject).map(readClient);
    } catch {
      this.clients.value = [];
    }
  }
}

function readClient(client: JsonObject): AttachedClient {
  const id = client["id"];
  return {
    id: typeof id === "number" ? String(id) : (text(id) ?? ""),
    name: text(client["name"]) ?? "client",
    role: text(client["role"]) ?? "full",
    you: client["you"] === true,
  };
}

function readOutline(outline: JsonObject): Outline {
  const agent = (value: Json) => text(value) ?? text(at(value, "agent")) ?? [];
  const fork = outline["forkOf"];
  return {
    title: text(outline["title"]),
    cwd: text(outline["cwd"]) ?? "",
    agents: list(outline["agents"]).flatMap(agent),
    forkOf: text(fork) ?? text(at(fork, "sessionId")),
    turns: list(outline["turns"]).filter(isObject).map((turn) => ({
      turn: number(turn["turn"]) ?? 0,
      seq: number(turn["seq"]) ?? 0,
      time: text(turn["time"]),
      message: text(turn["messageId"]),
      prompt: text(turn["prompt"]) ?? "",
      tools: number(turn["tools"]) ?? 0,
      stopReason: text(turn["stopReason"]),
    })),
  };
}
