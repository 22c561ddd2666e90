// The timeline of a session: draws the items of the window, loads more at both ends, stays at the end while the user looks at it, and
// keeps what the user reads in its place otherwise.

import { useSignalEffect } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { text } from "../core/json.ts";
import type { Item } from "../core/item.ts";
import type { SessionStore } from "../state/session.ts";
import { visible } from "../core/visible.ts";
import { Icon } from "./icons.tsx";
import { ItemView, subagentName } from "./items.tsx";

/** How near to the end of what is loaded more is loaded. */
const NEAR = 1_500;
/** How far from the end a way back is offered. */
const FAR = 600;
/** How near to the end the user has to be to stay there. */
const AT_END = 48;

export function TimelineView({ store }: { store: SessionStore }) {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const anchor = useRef<{ key: string; top: number } | undefined>(undefined);
  const last = useRef({ top: 0, height: 0, touched: 0 });
  const timeline = store.timeline.value;
  const sent = store.sent.value;
  const running = store.standing.value.state === "running";
  const { shown, terminals, names } = useMemo(() => arrange(timeline.items), [timeline]);
  const newest = shown.at(-1);

  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null) return;
    if (store.atEnd && !timeline.after) {
      box.scrollTop = box.scrollHeight;
    } else {
      restore(box, anchor.current);
      anchor.current = topmost(box);
    }
    last.current = { ...last.current, top: box.scrollTop, height: box.scrollHeight };
    loadNear(box, store);
  }, [timeline, sent]);

  // What is drawn later, such as colours and a question below, must not push the end out of sight.
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null || content.current === null) return;
    const observer = new ResizeObserver(() => {
      box.parentElement?.style.setProperty("--scrollbars", `${box.offsetWidth - box.clientWidth}px`);
      if (store.atEnd && !store.timeline.value.after) box.scrollTop = box.scrollHeight;
    });
    observer.observe(box);
    observer.observe(content.current);
    return () => observer.disconnect();
  }, []);

  useSignalEffect(() => {
    const target = store.target.value;
    if (target === undefined || store.opening.value.state !== "open") return;
    requestAnimationFrame(() => show(scroller.current, target, store));
  });

  const scrolled = () => {
    const box = scroller.current;
    if (box === null) return;
    const near = box.scrollHeight - box.scrollTop - box.clientHeight < AT_END;
    // The end also moves away by itself while something is drawn; then the height changes, and nobody has touched anything.
    const { top, height, touched } = last.current;
    const up = box.scrollTop < top - 1 && (box.scrollHeight === height || performance.now() - touched < 500);
    last.current = { top: box.scrollTop, height: box.scrollHeight, touched };
    const atEnd = !store.timeline.value.after && (near || (store.atEnd && !up));
    store.atEnd = atEnd;
    // At the end nothing has to be kept in its place.
    anchor.current = atEnd ? undefined : topmost(box);
    if (atEnd) store.below.value = 0;
    store.away.value = !atEnd && box.scrollHeight - box.scrollTop - box.clientHeight > FAR;
    loadNear(box, store);
  };

  const touch = () => {
    last.current.touched = performance.now();
  };

  return (
    <div class="timeline" ref={scroller} onScroll={scrolled} onWheel={touch} onTouchMove={touch} onPointerDown={touch} onKeyDown={touch} data-timeline>
      <div class="timeline-items" ref={content}>
        {timeline.before ? <p class="muted center">Loading earlier messages…</p> : <p class="muted center begin">The beginning of the session</p>}
        {shown.map((item) => (
          <ItemView
            key={item.key}
            item={item}
            store={store}
            growing={running && item === newest}
            terminal={(id) => terminals.get(terminalKey(item, id))}
            terminals={terminalOf(item, terminals)}
            of={names.get(item.key)}
          />
        ))}
        {timeline.after && shown.length > 0 && <p class="muted center">Loading later messages…</p>}
        {sent.map((prompt) => (
          <article key={prompt.id} class="item item-user item-sent" aria-label="Prompt on its way">
            <header class="who">
              <span class="name">Prompt</span>
              <span class="muted">{prompt.state === "sending" ? "Waiting for the agent…" : "Sent; the connection broke before the answer"}</span>
            </header>
            <p dir="auto">{visible(prompt.text.slice(0, 2000))}</p>
          </article>
        ))}
        {running && sent.length === 0 && <p class="working" aria-hidden="true"><span /><span /><span /></p>}
      </div>
      <NewBelow store={store} scroller={scroller} />
    </div>
  );
}

function NewBelow({ store, scroller }: { store: SessionStore; scroller: { current: HTMLDivElement | null } }) {
  if (store.below.value === 0 && !store.timeline.value.after && !store.away.value) return null;
  const go = async () => {
    store.atEnd = true;
    await store.toEnd();
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  return (
    <button type="button" class="new-below" onClick={() => void go()}>
      <Icon name="down" size={14} />
      {store.below.value > 0 ? "New below" : "To the end"}
    </button>
  );
}

/** Terminals are drawn inside the tool calls that show them. */
function arrange(items: readonly Item[]): { shown: Item[]; terminals: Map<string, Item>; names: Map<string, string> } {
  const terminals = new Map<string, Item>();
  const referred = new Set<string>();
  for (const item of items) {
    if (item.subject === "terminal") terminals.set(item.key, item);
    if (item.subject === "tool") terminalIds(item).forEach((id) => referred.add(terminalKey(item, id)));
  }
  const shown = items.filter((item) => item.subject !== "terminal" || !referred.has(item.key));
  return { shown, terminals, names: subagentNames(shown) };
}

/** Sub-agents may work at the same time: where another one goes on, its name is shown. */
function subagentNames(items: readonly Item[]): Map<string, string> {
  const titles = new Map<string, string>();
  const names = new Map<string, string>();
  let above: string | undefined;
  for (const item of items) {
    if (item.subject === "subagent") titles.set(item.id, subagentName(item));
    if (item.session !== undefined && item.session !== above) names.set(item.key, titles.get(item.session) ?? "Sub-agent");
    above = item.subject === "subagent" ? item.id : item.session;
  }
  return names;
}

function terminalIds(item: Item): string[] {
  return item.parts.flatMap((part) => (part.type === "block" && part.block["type"] === "terminal" ? (text(part.block["terminalId"]) ?? []) : []));
}

function terminalKey(item: Item, id: string): string {
  return `${item.session === undefined ? "" : `${item.session}/`}terminal:${id}`;
}

function terminalOf(item: Item, terminals: Map<string, Item>): Item | undefined {
  const last = item.subject === "tool" ? terminalIds(item).at(-1) : undefined;
  return last === undefined ? undefined : terminals.get(terminalKey(item, last));
}

/** The first item that is visible, and where it is. */
function topmost(box: HTMLElement): { key: string; top: number } | undefined {
  const edge = box.getBoundingClientRect().top;
  const items = box.querySelectorAll<HTMLElement>("[data-key]");
  let [low, high] = [0, items.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((items[middle]?.getBoundingClientRect().bottom ?? 0) <= edge) low = middle + 1;
    else high = middle;
  }
  const found = items[low];
  return found === undefined ? undefined : { key: found.dataset["key"] ?? "", top: found.getBoundingClientRect().top };
}

/** Puts the item that was on top back to where it was; the browser has often done so itself. */
function restore(box: HTMLElement, anchor: { key: string; top: number } | undefined): void {
  if (anchor === undefined) return;
  const found = box.querySelector<HTMLElement>(`[data-key="${CSS.escape(anchor.key)}"]`);
  if (found === null) return;
  const moved = found.getBoundingClientRect().top - anchor.top;
  if (Math.abs(moved) > 1) box.scrollTop += moved;
}

function loadNear(box: HTMLElement, store: SessionStore): void {
  if (box.scrollTop < NEAR && store.timeline.value.before) void store.older();
  else if (box.scrollHeight - box.scrollTop - box.clientHeight < NEAR && store.timeline.value.after) void store.newer();
}

function show(box: HTMLElement | null, target: string, store: SessionStore): void {
  const found = box?.querySelector<HTMLElement>(`[data-id="${CSS.escape(target)}"]`);
  if (!found) return;
  store.atEnd = false;
  found.scrollIntoView({ block: "start" });
  found.focus({ preventScroll: true });
  found.classList.add("found");
  setTimeout(() => found.classList.remove("found"), 2_000);
  store.target.value = undefined;
}
