// One item of a session's timeline: a message, tool call, terminal, plan, compaction, notice or event. Folds version 2 updates into
// it as `lib/src/client/view` does. Items are values: a change makes a new one, so that unchanged ones are not drawn again.

import { fields, isObject, list, text, type Json, type JsonObject } from "./json.ts";

export type Subject =
  | "user"
  | "agent"
  | "thought"
  | "tool"
  | "terminal"
  | "plan"
  | "compaction"
  | "notice"
  | "event"
  | "subagent"
  | "other";

/** Adjacent texts are one part; everything else is as it came. */
export type Part = { type: "text"; text: string } | { type: "block"; block: JsonObject };

export interface Item {
  readonly key: string;
  readonly subject: Subject;
  readonly id: string;
  /** The sub-agent that it belongs to. */
  readonly session: string | undefined;
  readonly seq: number;
  readonly last: number;
  readonly turn: number;
  readonly time: string | undefined;
  /** Members besides the id and the content. */
  readonly members: JsonObject;
  readonly meta: JsonObject;
  readonly parts: readonly Part[];
  /** The end of a terminal's output. */
  readonly output: string;
  readonly decoder: TextDecoder | undefined;
  /** The size of the whole item in bytes, if only a part of it was sent. */
  readonly cut: number | undefined;
}

/** Where an entry stands in the journal. */
export interface EntryPlace {
  seq: number;
  last: number;
  turn: number;
  time: string | undefined;
  session: string | undefined;
  cut: number | undefined;
}

type Form = "chunk" | "upsert" | "complete" | "removal" | "event" | "standing";

interface Kind {
  subject: Subject;
  form: Form;
  id?: string;
  content?: string;
}

const KINDS: Record<string, Kind> = {
  user_message: { subject: "user", form: "upsert", id: "messageId", content: "content" },
  user_message_chunk: { subject: "user", form: "chunk", id: "messageId", content: "content" },
  agent_message: { subject: "agent", form: "upsert", id: "messageId", content: "content" },
  agent_message_chunk: { subject: "agent", form: "chunk", id: "messageId", content: "content" },
  agent_thought: { subject: "thought", form: "upsert", id: "messageId", content: "content" },
  agent_thought_chunk: { subject: "thought", form: "chunk", id: "messageId", content: "content" },
  tool_call_update: { subject: "tool", form: "upsert", id: "toolCallId", content: "content" },
  tool_call_content_chunk: { subject: "tool", form: "chunk", id: "toolCallId", content: "content" },
  terminal_update: { subject: "terminal", form: "upsert", id: "terminalId", content: "output" },
  terminal_output_chunk: { subject: "terminal", form: "chunk", id: "terminalId", content: "data" },
  compaction_update: { subject: "compaction", form: "upsert", id: "compactionId", content: "summary" },
  compaction_summary_chunk: { subject: "compaction", form: "chunk", id: "compactionId", content: "content" },
  plan_update: { subject: "plan", form: "complete" },
  plan_removed: { subject: "plan", form: "removal", id: "planId" },
  subagent_update: { subject: "subagent", form: "upsert", id: "sessionId" },
  notice: { subject: "notice", form: "event" },
  available_commands_update: { subject: "other", form: "standing" },
  config_option_update: { subject: "other", form: "standing" },
  session_info_update: { subject: "other", form: "standing" },
  usage_update: { subject: "other", form: "standing" },
  state_update: { subject: "other", form: "standing" },
};

const UNKNOWN: Kind = { subject: "other", form: "event" };
/** How much of a message and of a terminal's output is kept. More of a message can be read from the server. */
const LONGEST_TEXT = 1024 * 1024;
const LONGEST_OUTPUT = 256 * 1024;

export function kindOf(update: JsonObject): Kind {
  const tag = text(update["sessionUpdate"]);
  return (tag !== undefined && Object.hasOwn(KINDS, tag) && KINDS[tag]) || UNKNOWN;
}

/** The key of the item that an update is about. Plans have one item in each turn: they change through a whole session. */
export function keyOf(update: JsonObject, place: EntryPlace): string {
  const kind = kindOf(update);
  const of = place.session === undefined ? "" : `${place.session}/`;
  if (kind.subject === "plan") {
    const id = text(fields(update["plan"])["planId"]) ?? text(update["planId"]) ?? "";
    return `${of}plan:${id}:${place.turn}`;
  }
  const id = kind.id === undefined ? undefined : text(update[kind.id]);
  return id === undefined || kind.form === "event" ? `${of}seq:${place.seq}` : `${of}${kind.subject}:${id}`;
}

/** The item after an update; `undefined` if the update removes it. */
export function apply(before: Item | undefined, update: JsonObject, place: EntryPlace): Item | undefined {
  const kind = kindOf(update);
  if (kind.form === "removal") return undefined;
  const base = before ?? fresh(keyOf(update, place), kind, update, place);
  const next = { ...base, last: Math.max(base.last, place.last), cut: place.cut ?? base.cut };
  switch (kind.form) {
    case "chunk":
      return chunk(next, kind, update);
    case "upsert":
      return upsert(next, kind, update);
    case "complete":
    case "event":
    case "standing":
      return { ...next, members: update };
  }
}

/** An item for what happened besides the conversation. */
export function eventItem(event: JsonObject, place: EntryPlace): Item {
  const kind: Kind = { subject: "event", form: "event" };
  return { ...fresh(`event:${place.seq}`, kind, {}, place), members: event };
}

function fresh(key: string, kind: Kind, update: JsonObject, place: EntryPlace): Item {
  return {
    key,
    subject: kind.subject,
    id: (kind.id && text(update[kind.id])) || text(fields(update["plan"])["planId"]) || "",
    session: place.session,
    seq: place.seq,
    last: place.last,
    turn: place.turn,
    time: place.time,
    members: {},
    meta: {},
    parts: [],
    output: "",
    decoder: undefined,
    cut: place.cut,
  };
}

function upsert(item: Item, kind: Kind, update: JsonObject): Item {
  const members = { ...item.members };
  let next = item;
  for (const [name, value] of Object.entries(update)) {
    if (name === "sessionUpdate" || name === kind.id || value === undefined) continue;
    if (name === "_meta") next = { ...next, meta: patchedMeta(next.meta, value) };
    else if (name === kind.content) next = replaced(next, kind, value);
    else if (value === null) delete members[name];
    else members[name] = value;
  }
  return { ...next, members };
}

function patchedMeta(meta: JsonObject, value: Json): JsonObject {
  if (value === null) return {};
  if (!isObject(value)) return meta;
  const next = { ...meta };
  for (const [name, member] of Object.entries(value)) {
    if (member === null) delete next[name];
    else next[name] = member;
  }
  return next;
}

function replaced(item: Item, kind: Kind, value: Json): Item {
  if (kind.subject === "terminal") {
    const data = text(fields(value)["data"]);
    const empty = { ...item, output: "", decoder: undefined };
    return data === undefined ? empty : withOutput(empty, data);
  }
  if (value !== null && !Array.isArray(value)) return item;
  return list(value).reduce<Item>((next, block) => withBlock(next, fields(block)), { ...item, parts: [] });
}

function chunk(item: Item, kind: Kind, update: JsonObject): Item {
  const content = kind.content === undefined ? undefined : update[kind.content];
  if (kind.subject === "terminal") return withOutput(item, text(content) ?? "");
  const meta = isObject(update["_meta"]) ? patchedMeta(item.meta, update["_meta"]) : item.meta;
  return withBlock({ ...item, meta }, fields(content));
}

function withBlock(item: Item, block: JsonObject): Item {
  const said = block["type"] === "text" ? text(block["text"]) : undefined;
  if (said === undefined) return { ...item, parts: [...item.parts, { type: "block", block }] };
  const before = item.parts.at(-1);
  const joined = before?.type === "text" ? before.text + said : said;
  const kept = joined.length > LONGEST_TEXT ? joined.slice(0, LONGEST_TEXT) : joined;
  const cut = joined.length > LONGEST_TEXT ? Math.max(item.cut ?? 0, (item.cut ?? LONGEST_TEXT) + said.length) : item.cut;
  const parts = before?.type === "text" ? item.parts.slice(0, -1) : item.parts;
  return { ...item, cut, parts: [...parts, { type: "text", text: kept }] };
}

function withOutput(item: Item, data: string): Item {
  const bytes = decoded(data);
  if (bytes === undefined) return item;
  const decoder = item.decoder ?? new TextDecoder();
  const output = item.output + decoder.decode(bytes, { stream: true });
  const kept = output.length > 2 * LONGEST_OUTPUT ? output.slice(-LONGEST_OUTPUT) : output;
  return { ...item, decoder, output: kept };
}

function decoded(data: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** The text of a message; what is no text is left out. */
export function itemText(item: Item): string {
  return item.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}
