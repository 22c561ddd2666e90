// The fold of updates, and the window over a session: pages and live entries give the same items.

import assert from "node:assert/strict";
import { test } from "node:test";
import { itemText, type Item } from "../src/core/item.ts";
import type { JsonObject } from "../src/core/json.ts";
import { fromPage, MOST_ITEMS, readPage, withEntries, withNewer, withOlder, type Timeline } from "../src/core/timeline.ts";

const said = (seq: number, id: string, text: string, kind = "agent"): JsonObject => ({
  seq, turn: 1, time: "2026-01-01T00:00:00Z",
  update: { sessionUpdate: `${kind}_message_chunk`, messageId: id, content: { type: "text", text } },
});
const whole = (seq: number, last: number, id: string, text: string): JsonObject => ({
  seq, last, turn: 1, time: "2026-01-01T00:00:00Z",
  update: { sessionUpdate: "agent_message", messageId: id, content: [{ type: "text", text }] },
});
const page = (items: JsonObject[], head: number, before = false, after = false) =>
  readPage({ items, head, more: { before, after } });
const texts = (timeline: Timeline) => timeline.items.map(itemText);
const live = (...entries: JsonObject[]) => withEntries(fromPage(page([], 0)), entries);

test("chunks and whole messages are one item", () => {
  const chunks = live(said(1, "m", "a"), said(2, "m", "b"), said(3, "n", "c"));
  assert.deepEqual(texts(chunks), ["ab", "c"]);
  const upserts = withEntries(chunks, [{ seq: 4, update: { sessionUpdate: "agent_message", messageId: "m", content: [{ type: "text", text: "new" }] } }]);
  assert.deepEqual(texts(upserts), ["new", "c"]);
  assert.equal(upserts.items[1], chunks.items[1], "what did not change is the same value");
});

test("a live message goes on from the page that has its beginning", () => {
  const begun = fromPage(page([whole(5, 8, "m", "abc")], 8));
  const grown = withEntries(begun, [said(8, "m", "c"), said(9, "m", "d")]);
  assert.deepEqual(texts(grown), ["abcd"], "entry 8 is in the page already");
});

test("entries that come twice count once", () => {
  const once = live(said(1, "m", "a"), said(2, "m", "b"));
  assert.deepEqual(texts(withEntries(once, [said(1, "m", "a"), said(2, "m", "b"), said(3, "m", "c")])), ["abc"]);
});

test("entries wait while the window does not reach the end, and are applied when it does", () => {
  const middle = fromPage(page([whole(1, 2, "a", "A")], 50, false, true));
  const waiting = withEntries(middle, [said(50, "z", "old"), said(51, "z", "!")]);
  assert.deepEqual(texts(waiting), ["A"]);
  const all = withNewer(waiting, page([whole(3, 4, "b", "B"), whole(49, 50, "z", "Z")], 50));
  assert.deepEqual(texts(all), ["A", "B", "Z!"]);
  assert.equal(all.after, false);
});

test("one entry can be an update and an event, also in two batches", () => {
  const idle = { seq: 2, update: { sessionUpdate: "state_update", state: "idle" } };
  const ended = { seq: 2, event: { type: "turn_ended", stopReason: "cancelled" } };
  const subjects = (timeline: Timeline) => timeline.items.map((item) => item.subject);
  assert.deepEqual(subjects(live(said(1, "m", "a"), idle, ended)), ["agent", "event"]);
  assert.deepEqual(subjects(withEntries(live(said(1, "m", "a"), idle), [ended])), ["agent", "event"]);
  assert.deepEqual(subjects(withEntries(live(said(1, "m", "a"), idle, ended), [idle, ended])), ["agent", "event"]);
});

test("an item that was folded meanwhile comes again as a whole", () => {
  const half = live(said(1, "m", "a"), said(2, "m", "b"));
  assert.deepEqual(texts(withEntries(half, [whole(1, 4, "m", "abcd"), said(5, "n", "e")])), ["abcd", "e"]);
});

test("older pages come before, and an item in two pages is one", () => {
  const newest = fromPage(page([whole(9, 12, "c", "C")], 12, true));
  const more = withOlder(newest, page([whole(1, 3, "a", "A"), whole(9, 10, "c", "old")], 12));
  assert.deepEqual(texts(more), ["A", "C"]);
  assert.equal(more.before, false);
});

test("the window is bounded, at the side that is not looked at", () => {
  const many = (from: number, count: number) => Array.from({ length: count }, (_, at) => whole(from + at, from + at, `m${from + at}`, "x"));
  const up = withOlder(fromPage(page(many(1000, MOST_ITEMS), 2000, true)), page(many(900, 60), 2000, true));
  assert.equal(up.items.length, MOST_ITEMS);
  assert.deepEqual([up.items[0]?.id, up.after], ["m900", true]);
  const flood = Array.from({ length: 10_000 }, (_, at) => said(at + 1, `m${at}`, "x"));
  const end = withEntries(fromPage(page([], 0)), flood);
  assert.ok(end.items.length <= 2 * MOST_ITEMS && end.before && !end.after);
  assert.equal(end.items.at(-1)?.id, "m9999");
  const kept = withEntries(fromPage(page([], 0)), flood, "beginning");
  assert.equal(kept.items[0]?.id, "m0");
  assert.ok(kept.after);
});

test("tool calls are patched, and their content replaced or appended", () => {
  const call = (seq: number, more: JsonObject): JsonObject => ({ seq, update: { sessionUpdate: "tool_call_update", toolCallId: "t", ...more } });
  const timeline = live(
    call(1, { title: "Edit", status: "pending", rawInput: { a: 1 }, _meta: { x: 1, y: 2 } }),
    call(2, { status: "completed", rawInput: null, _meta: { x: null }, content: [{ type: "content", content: { type: "text", text: "done" } }] }),
    { seq: 3, update: { sessionUpdate: "tool_call_content_chunk", toolCallId: "t", content: { type: "terminal", terminalId: "v" } } },
  );
  const item = timeline.items[0] as Item;
  assert.deepEqual(item.members, { title: "Edit", status: "completed" });
  assert.deepEqual(item.meta, { y: 2 });
  assert.deepEqual(item.parts.map((part) => part.type === "block" && part.block["type"]), ["content", "terminal"]);
});

test("terminal output is decoded across chunks, and only its end is kept", () => {
  const bytes = Buffer.from("é!");
  const output = (seq: number, data: Buffer): JsonObject => ({ seq, update: { sessionUpdate: "terminal_output_chunk", terminalId: "v", data: data.toString("base64") } });
  assert.equal(live(output(1, bytes.subarray(0, 1)), output(2, bytes.subarray(1))).items[0]?.output, "é!");
  const long = live(output(1, Buffer.alloc(600_000, "a")), output(2, Buffer.from("end")));
  assert.ok((long.items[0]?.output.length ?? 0) < 600_000);
  assert.ok(long.items[0]?.output.endsWith("end"));
  assert.equal(live({ seq: 1, update: { sessionUpdate: "terminal_output_chunk", terminalId: "v", data: "%%%" } }).items[0]?.output, "");
});

test("plans are one item in each turn, and go when they are removed", () => {
  const plan = (seq: number, turn: number, step: string): JsonObject => ({ seq, turn, update: { sessionUpdate: "plan_update", plan: { planId: "p", entries: [{ content: step }] } } });
  const timeline = live(plan(1, 1, "a"), plan(2, 1, "b"), plan(3, 2, "c"));
  assert.equal(timeline.items.length, 2);
  assert.equal(withEntries(timeline, [{ seq: 4, turn: 2, update: { sessionUpdate: "plan_removed", planId: "p" } }]).items.length, 1);
});

test("unknown updates, events and sub-agents are items; what holds for the session is none", () => {
  const timeline = live(
    { seq: 1, update: { sessionUpdate: "future_thing", deep: [1] } },
    { seq: 2, event: { type: "agent_changed", text: "another agent" } },
    { seq: 3, sessionId: "child", update: { sessionUpdate: "agent_message_chunk", messageId: "m", content: { type: "text", text: "c" } } },
    said(4, "m", "p"),
    { seq: 5, update: { sessionUpdate: "usage_update", used: 1, size: 2 } },
    { seq: 6, update: { sessionUpdate: "constructor" } },
    { seq: 7 },
  );
  assert.deepEqual(timeline.items.map((item) => item.subject), ["other", "event", "agent", "agent", "other", "other"]);
  assert.deepEqual(timeline.items.map((item) => item.session), [undefined, undefined, "child", undefined, undefined, undefined]);
});

test("a message of 5 MB is kept up to a bound", () => {
  const entries = Array.from({ length: 50 }, (_, at) => said(at + 1, "m", "x".repeat(100_000)));
  const item = live(...entries).items[0] as Item;
  assert.ok(itemText(item).length <= 1024 * 1024);
  assert.ok((item.cut ?? 0) > 4_000_000, String(item.cut));
});
