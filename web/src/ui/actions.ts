// Things to do that several parts of the page offer.

import { placeHref } from "../core/address.ts";
import { folderName } from "../core/format.ts";
import { exported, fork, type ExportFormat } from "../state/acting.ts";
import { say } from "../state/notices.ts";
import type { SessionStore } from "../state/session.ts";

export async function forkAndOpen(store: SessionStore, message: string | undefined): Promise<void> {
  const made = await fork(store, message);
  if (made === undefined) return;
  location.hash = placeHref({ page: "session", session: made });
  say("info", "This is the fork. The other session is unchanged.");
}

const ENDINGS: Record<ExportFormat, [string, string]> = {
  markdown: ["md", "text/markdown"],
  html: ["html", "text/html"],
  jsonl: ["jsonl", "application/jsonl"],
};

/** Saves a session as a file. */
export async function saveFile(session: string, title: string, format: ExportFormat): Promise<void> {
  const content = await exported(session, format);
  if (content === undefined) return;
  const [ending, type] = ENDINGS[format];
  const address = URL.createObjectURL(new Blob([content], { type }));
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = `${folderName(title).replace(/[^\p{L}\p{N} ._-]/gu, "").trim().slice(0, 60) || session}.${ending}`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
