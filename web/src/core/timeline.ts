// The part of a session's timeline that the page has: a window of items in order of the journal, which grows at both ends by
// pages and at its end by live entries, and never beyond a bound. Pure.

import { apply, eventItem, keyOf, kindOf, type EntryPlace, type Item } from "./item.ts";
import { fields, isObject, list, number, text, type Json, type JsonObject } from "./json.ts";

/** More than this is dropped at the end that nobody looks at. */
export const MOST_ITEMS = 400;
/** How many live entries are kept while a page is being read. */
const MOST_WAITING = 5_000;

export interface Timeline {
  readonly items: readonly Item[];
  readonly places: ReadonlyMap<string, number>;
  /** Whether there is more before the first item. */
  readonly before: boolean;
  /** Whether there is more after the last item; then live entries are not part of the window. */
  readonly after: boolean;
  /** The last entry that the window contains, if it reaches the end, and what of it: one entry can be an update and then an event. */
  readonly through: number;
  readonly throughPart: "update" | "event";
  /** Live entries that came while the window did not reach the end. */
  readonly waiting: readonly JsonObject[];
}

export const EMPTY: Timeline = {
  items: [],
  places: new Map(),
  before: false,
  after: true,
  through: 0,
  throughPart: "event",
  waiting: [],
};

export interface Page {
  items: JsonObject[];
  head: number;
  before: boolean;
  after: boolean;
}

export function readPage(answer: Json): Page {
  const page = fields(answer);
  const more = fields(page["more"]);
  return {
    items: list(page["items"]).filter(isObject),
    head: number(page["head"]) ?? 0,
    before: more["before"] === true,
    after: more["after"] === true,
  };
}

/** The newest page: whatever it says, nothing but live entries comes after it. */
export function readNewest(answer: Json): Page {
  return { ...readPage(answer), after: false };
}

/** A window that has exactly this page, and the live entries after it. */
export function fromPage(page: Page, waiting: readonly JsonObject[] = []): Timeline {
  const items = page.items.flatMap(pageItem);
  return grown({ ...EMPTY, items, places: placesOf(items), before: page.before, waiting }, page);
}

/** The window with an older page before it. */
export function withOlder(timeline: Timeline, page: Page): Timeline {
  const items = merged(page.items.flatMap(pageItem), timeline.items);
  const longer = { ...timeline, items, places: placesOf(items), before: page.before };
  return items.length > MOST_ITEMS ? withoutEnd(longer) : longer;
}

/** The window with the page that follows it. Live entries that waited for that are applied. */
export function withNewer(timeline: Timeline, page: Page): Timeline {
  const items = merged(timeline.items, page.items.flatMap(pageItem));
  const longer = grown({ ...timeline, items, places: placesOf(items) }, page);
  return items.length > MOST_ITEMS ? withoutBeginning(longer) : longer;
}

/** Which part of the window is looked at, and is kept when it gets too long. */
export type Kept = "beginning" | "end";

/** The window after live entries. */
export function withEntries(timeline: Timeline, entries: readonly JsonObject[], kept: Kept = "end"): Timeline {
  if (timeline.after) {
    const waiting = [...timeline.waiting, ...entries].slice(-MOST_WAITING);
    return { ...timeline, waiting };
  }
  const items = [...timeline.items];
  const places = new Map(timeline.places);
  let { through, throughPart } = timeline;
  for (const entry of entries) {
    const place = entryPlace(entry);
    const part = isObject(entry["event"]) ? "event" : "update";
    // What the window has already, because a page was read meanwhile or a connection was made again.
    // An item that was folded meanwhile comes again as a whole: its end counts.
    if (place.last < through || (place.last === through && (throughPart === "event" || part === "update"))) continue;
    [through, throughPart] = [place.last, part];
    take(items, places, entry, place);
  }
  const next = { ...timeline, items, places, through, throughPart };
  if (items.length <= 2 * MOST_ITEMS) return next;
  return kept === "end" ? withoutBeginning(next) : withoutEnd(next);
}

/** The window without its older items, if it has too many. */
export function trimmed(timeline: Timeline): Timeline {
  return timeline.items.length > MOST_ITEMS ? withoutBeginning(timeline) : timeline;
}

function grown(timeline: Timeline, page: Page): Timeline {
  if (page.after) return { ...timeline, after: true };
  const { waiting } = timeline;
  const here: Timeline = { ...timeline, after: false, through: page.head, throughPart: "event", waiting: [] };
  return withEntries(here, waiting);
}

function withoutEnd(timeline: Timeline): Timeline {
  const items = timeline.items.slice(0, MOST_ITEMS);
  return { ...timeline, items, places: placesOf(items), after: true };
}

function withoutBeginning(timeline: Timeline): Timeline {
  const items = timeline.items.slice(-MOST_ITEMS);
  return { ...timeline, items, places: placesOf(items), before: true };
}

function take(items: Item[], places: Map<string, number>, entry: JsonObject, place: EntryPlace): void {
  const event = entry["event"];
  if (isObject(event)) {
    items.push(eventItem(event, place));
    return;
  }
  const update = fields(entry["update"]);
  const kind = kindOf(update);
  if (kind.form === "standing") return;
  const key = keyOf(update, place);
  const known = places.get(key);
  const before = known === undefined ? undefined : items[known];
  const after = apply(before, update, place);
  if (after === undefined) {
    if (known !== undefined) remove(items, places, known);
  } else if (known === undefined) {
    places.set(key, items.length);
    items.push(after);
  } else {
    items[known] = after;
  }
}

function remove(items: Item[], places: Map<string, number>, at: number): void {
  items.splice(at, 1);
  places.clear();
  items.forEach((item, index) => places.set(item.key, index));
}

/** Two runs of items in order. Of an item that is in both, the one with the newer end is kept, where it begins. */
function merged(earlier: readonly Item[], later: readonly Item[]): Item[] {
  const known = new Map(earlier.map((item, index) => [item.key, index]));
  const items = [...earlier];
  for (const item of later) {
    const at = known.get(item.key);
    const other = at === undefined ? undefined : items[at];
    if (at === undefined || other === undefined) items.push(item);
    else if (item.last > other.last) items[at] = { ...item, seq: other.seq };
  }
  return items;
}

function placesOf(items: readonly Item[]): Map<string, number> {
  return new Map(items.map((item, index) => [item.key, index]));
}

function pageItem(entry: JsonObject): Item[] {
  const place = entryPlace(entry);
  if (isObject(entry["event"])) return [eventItem(entry["event"], place)];
  const update = fields(entry["update"]);
  if (kindOf(update).form === "standing") return [];
  const item = apply(undefined, update, place);
  return item === undefined ? [] : [item];
}

export function entryPlace(entry: JsonObject): EntryPlace {
  const seq = number(entry["seq"]) ?? 0;
  return {
    seq,
    last: number(entry["last"]) ?? seq,
    turn: number(entry["turn"]) ?? 0,
    time: text(entry["time"]),
    session: text(entry["sessionId"]),
    cut: number(fields(entry["cut"])["bytes"]),
  };
}
