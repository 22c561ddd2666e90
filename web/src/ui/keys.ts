// Keyboard shortcuts, and the theme.

import { signal } from "@preact/signals";
import { placeHref } from "../core/address.ts";
import { load, save } from "../core/storage.ts";
import { hello } from "../state/link.ts";

export const helpOpen = signal(false);

export const SHORTCUTS: [string, string][] = [
  ["/", "Search all sessions"],
  ["j / k", "Next or previous session or message"],
  ["Enter", "Open the session; open or close a tool call or a thought"],
  ["u", "Back to the list"],
  ["c", "Write a prompt"],
  ["Shift+Enter", "New line in the prompt"],
  ["g / G", "To the beginning or the end of what is shown"],
  ["t", "Light or dark"],
  ["?", "This help"],
];

type Theme = "light" | "dark" | undefined;

export function startKeys(): void {
  const stored = load("local", "theme");
  showTheme(stored === "light" || stored === "dark" ? stored : undefined);
  document.addEventListener("keydown", pressed);
}

export function nextTheme(): void {
  const isDark = document.documentElement.dataset["theme"]
    ? document.documentElement.dataset["theme"] === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = isDark ? "light" : "dark";
  save("local", "theme", theme);
  showTheme(theme);
}

function showTheme(theme: Theme): void {
  if (theme === undefined) delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target as HTMLElement;
  if (target.closest("input, textarea, select, dialog, [role=menu], [contenteditable]")) {
    if (event.key === "Escape" && target.id === "search") target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}

const KEYS: Record<string, () => void> = {
  "/": () => {
    const box = document.querySelector<HTMLInputElement>("#search");
    if (box !== null) return box.focus();
    if (hello.value?.session !== undefined) return;
    location.hash = placeHref({ page: "list" });
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector<HTMLInputElement>("#search")?.focus()));
  },
  "?": () => (helpOpen.value = true),
  c: () => document.querySelector<HTMLTextAreaElement>("#prompt")?.focus(),
  t: nextTheme,
  u: () => {
    if (hello.value?.session === undefined) location.hash = placeHref({ page: "list" });
  },
  j: () => step(1),
  k: () => step(-1),
  g: () => scroller()?.scrollTo({ top: 0 }),
  G: () => scroller()?.scrollTo({ top: scroller()?.scrollHeight ?? 0 }),
};

function scroller(): Element | null {
  return document.querySelector("[data-timeline]") ?? document.scrollingElement;
}

/** Moves the focus to the next session of the list, or the next item of the timeline. */
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row] a, [data-key]")];
  const focused = rows.findIndex((row) => row.contains(document.activeElement));
  const at = focused >= 0 ? focused + by : nearest(rows, by);
  const row = rows[Math.max(0, Math.min(rows.length - 1, at))];
  row?.focus({ preventScroll: true });
  row?.scrollIntoView({ block: row.matches("[data-key]") ? "start" : "nearest" });
}

/** Without a focus, the first or last one that is visible. */
function nearest(rows: HTMLElement[], by: 1 | -1): number {
  const visible = rows.map((row) => row.getBoundingClientRect()).map((box) => box.bottom > 80 && box.top < innerHeight - 80);
  return by > 0 ? Math.max(0, visible.indexOf(true)) : visible.lastIndexOf(true);
}
