// Full-text search in all sessions.

import { signal } from "@preact/signals";
import { at, fields, isObject, list, text, type JsonObject } from "../core/json.ts";
import { request } from "./link.ts";

export interface Hit {
  session: string;
  title: string | undefined;
  agent: string;
  cwd: string;
  message: string | undefined;
  speaker: string;
  time: string | undefined;
  passage: { text: string; match: boolean }[];
}

export const query = signal("");
export const hits = signal<readonly Hit[]>([]);
export const searching = signal(false);
export const searchFailed = signal<string | undefined>(undefined);
export const moreHits = signal(false);

let cursor: string | undefined;
let generation = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Searches for what the user types, a little after the last key. */
export function search(typed: string): void {
  query.value = typed;
  clearTimeout(timer);
  generation++;
  cursor = undefined;
  moreHits.value = false;
  searchFailed.value = undefined;
  if (typed.trim() === "") {
    hits.value = [];
    searching.value = false;
    return;
  }
  searching.value = true;
  timer = setTimeout(() => void page([]), 200);
}

export async function searchMore(): Promise<void> {
  if (!searching.value && moreHits.value) await page(hits.value);
}

async function page(known: readonly Hit[]): Promise<void> {
  const mine = generation;
  searching.value = true;
  const params: JsonObject = { query: query.value, limit: 30 };
  if (cursor !== undefined) params["cursor"] = cursor;
  try {
    const answer = await request("_rethread/search", params);
    if (mine !== generation) return;
    hits.value = [...known, ...list(at(answer, "hits")).filter(isObject).flatMap(readHit)];
    cursor = text(at(answer, "nextCursor"));
    moreHits.value = cursor !== undefined;
  } catch (error) {
    if (mine !== generation) return;
    searchFailed.value = (error as Error).message;
    hits.value = known;
  } finally {
    if (mine === generation) searching.value = false;
  }
}

function readHit(hit: JsonObject): Hit[] {
  const session = text(hit["sessionId"]);
  if (session === undefined) return [];
  const passage = list(hit["passage"]).map((part) => {
    const own = fields(part);
    return { text: text(own["text"]) ?? "", match: own["match"] === true };
  });
  return [
    {
      session,
      title: text(hit["title"]),
      agent: text(hit["agent"]) ?? "",
      cwd: text(hit["cwd"]) ?? "",
      message: text(hit["messageId"]),
      speaker: text(hit["speaker"]) ?? "",
      time: text(hit["time"]),
      passage,
    },
  ];
}
