// Short messages to the user, and what screen readers are told.

import { signal } from "@preact/signals";

export interface ShownNotice {
  id: number;
  severity: "info" | "warning" | "error";
  text: string;
}

export const notices = signal<readonly ShownNotice[]>([]);
/** What is read out, politely. */
export const announcement = signal("");

let next = 1;

export function say(severity: ShownNotice["severity"], text: string): void {
  const notice = { id: next++, severity, text };
  notices.value = [...notices.value.slice(-3), notice];
  setTimeout(() => dismiss(notice.id), severity === "error" ? 12_000 : 6_000);
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function announce(text: string): void {
  announcement.value = text;
}
