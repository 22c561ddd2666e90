// Small parts that all pages use: buttons, badges, menus, dialogs, notices.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { visible } from "../core/visible.ts";
import type { SessionState } from "../core/standing.ts";
import { announcement, dismiss, notices, say } from "../state/notices.ts";
import { Icon, type IconName } from "./icons.tsx";

/** Text of somebody else, on one line. */
export function Plain({ text, class: name }: { text: string; class?: string }) {
  return (
    <bdi class={name} title={visible(text)}>
      {visible(text)}
    </bdi>
  );
}

interface ButtonProps {
  icon: IconName;
  label: string;
  onClick: (event: MouseEvent) => void;
  class?: string;
  pressed?: boolean;
}

export function IconButton({ icon, label, onClick, class: name = "", pressed }: ButtonProps) {
  return (
    <button type="button" class={`icon-button ${name}`} aria-label={label} title={label} aria-pressed={pressed} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("info", `${what} copied.`);
  } catch {
    say("error", "The browser does not allow copying here. Select the text instead.");
  }
}

export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [done, setDone] = useState(false);
  const click = () => {
    navigator.clipboard.writeText(text()).then(
      () => {
        setDone(true);
        setTimeout(() => setDone(false), 1500);
      },
      () => say("error", "The browser does not allow copying here. Select the text instead."),
    );
  };
  return <IconButton class="copy" icon={done ? "check" : "copy"} label={done ? "Copied" : label} onClick={click} />;
}

const STATES: Record<SessionState, string> = { running: "Running", waiting: "Needs you", idle: "Idle", unknown: "" };

export function StateBadge({ state, quiet = false }: { state: SessionState; quiet?: boolean }) {
  if (STATES[state] === "" || (quiet && state === "idle")) return null;
  return (
    <span class={`state state-${state}`}>
      <span class="dot" aria-hidden="true" />
      {STATES[state]}
    </span>
  );
}

/** A button that opens a list of things to do. */
export function Menu({ label, icon, children }: { label: string; icon: IconName; children: (close: () => void) => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const close = () => setOpen(false);
  useEffect(() => {
    if (!open) return;
    const items = () => [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    items()[0]?.focus();
    const key = (event: KeyboardEvent) => {
      const all = items();
      const at = all.indexOf(document.activeElement as HTMLElement);
      if (event.key === "Escape" || event.key === "Tab") {
        setOpen(false);
        if (event.key === "Escape") box.current?.querySelector("button")?.focus();
        event.stopPropagation();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        all[(at + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus();
      }
    };
    const away = (event: PointerEvent) => !box.current?.contains(event.target as Node) && setOpen(false);
    document.addEventListener("keydown", key, true);
    document.addEventListener("pointerdown", away);
    return () => {
      document.removeEventListener("keydown", key, true);
      document.removeEventListener("pointerdown", away);
    };
  }, [open]);
  return (
    <div class="menu" ref={box}>
      <button type="button" class="icon-button" aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={icon} />
      </button>
      {open && (
        <div class="menu-list" role="menu" aria-label={label}>
          {children(close)}
        </div>
      )}
    </div>
  );
}

export function MenuItem({ icon, children, onClick, danger = false }: { icon: IconName; children: ComponentChildren; onClick: () => void; danger?: boolean }) {
  return (
    <button type="button" role="menuitem" tabIndex={-1} class={danger ? "danger" : ""} onClick={onClick}>
      <Icon name={icon} />
      <span>{children}</span>
    </button>
  );
}

/** A dialog of the browser's own kind, which keeps the focus inside. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <div class="dialog">
        <div class="dialog-head">
          <h2 id={heading}>{title}</h2>
          <IconButton icon="cross" label="Close" onClick={onClose} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

/** Notices in a corner, and the text that screen readers read out. */
export function Notices() {
  return (
    <>
      <div class="notices" role="status">
        {notices.value.map((notice) => (
          <div key={notice.id} class={`notice notice-${notice.severity}`}>
            <span>{visible(notice.text)}</span>
            <IconButton icon="cross" label="Dismiss" onClick={() => dismiss(notice.id)} />
          </div>
        ))}
      </div>
      <div class="unseen" aria-live="polite">
        {visible(announcement.value)}
      </div>
    </>
  );
}

/** Calls this when the element comes near the visible part of the page. */
export function useNear(call: () => void, active: boolean, margin = "600px") {
  const element = useRef<HTMLDivElement>(null);
  const latest = useRef(call);
  latest.current = call;
  useEffect(() => {
    if (!active || element.current === null) return;
    const observer = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && latest.current(), {
      rootMargin: margin,
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  });
  return element;
}
