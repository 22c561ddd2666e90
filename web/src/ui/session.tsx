// The page of one session.

import { useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { placeHref } from "../core/address.ts";
import { ago, count, folderName, money, moment, plural } from "../core/format.ts";
import { firstLine, visible } from "../core/visible.ts";
import { attachQuietly, exported } from "../state/acting.ts";
import { hello } from "../state/link.ts";
import { dispose, rename, sessions } from "../state/list.ts";
import { questions, questionsOf } from "../state/questions.ts";
import { SessionStore } from "../state/session.ts";
import { planSteps } from "../core/standing.ts";
import { forkAndOpen, saveFile } from "./actions.ts";
import { Composer } from "./composer.tsx";
import { Icon } from "./icons.tsx";
import { PlanSteps } from "./items.tsx";
import { copy, Dialog, IconButton, Menu, MenuItem, Plain, StateBadge } from "./parts.tsx";
import { QuestionCard } from "./question.tsx";
import { TimelineView } from "./timeline.tsx";

export function SessionPage({ id, message }: { id: string; message: string | undefined }) {
  const store = useMemo(() => new SessionStore(id), [id]);
  const [outlined, setOutlined] = useState(false);
  // Not after it was drawn: it is drawn with what it reads.
  useLayoutEffect(() => {
    store.open(message);
    return () => store.close();
  }, [store]);
  useEffect(() => {
    if (message !== undefined && store.opening.value.state === "open") void store.toMessage(message);
  }, [message]);
  useSignalEffect(() => {
    const { state } = store.standing.value;
    const looksOn = hello.value?.role === "observer" && store.opening.value.state === "open";
    if (state === "running" || state === "waiting" || looksOn) attachQuietly(store);
  });
  const opening = store.opening.value;
  if (opening.state === "failed") return <Failed reason={opening.reason} />;
  const isFull = hello.value?.role === "full";
  const asked = questionsOf(id);
  const items = store.timeline.value.items;
  const call = (of: string) => items.find((item) => item.subject === "tool" && item.id === of);
  return (
    <div class="session">
      <SessionHeader store={store} outlined={outlined} setOutlined={setOutlined} />
      <div class="session-body">
        <main class="conversation" id="main" aria-label="Conversation" aria-busy={opening.state === "loading"}>
          {opening.state === "loading" ? <Skeleton /> : <TimelineView store={store} />}
          <div class="foot">
            <div class="foot-questions">
              {asked.map((question) => <QuestionCard key={question.key} question={question} call={call} />)}
            </div>
            <OpenPlan store={store} />
            {isFull && store.refusal.value !== undefined && <p class="refusal" role="note">{visible(store.refusal.value)}</p>}
            {isFull && <Composer store={store} />}
            {!isFull && <p class="muted center looking">You are looking on. This view cannot send anything.</p>}
          </div>
        </main>
        <OutlinePane store={store} open={outlined} close={() => setOutlined(false)} />
      </div>
    </div>
  );
}

function Skeleton() {
  return (
    <div class="timeline skeleton" aria-hidden="true">
      <div class="timeline-items">
        <span /><span /><span />
      </div>
    </div>
  );
}

export function Failed({ reason }: { reason: string }) {
  return (
    <main class="message-page" id="main">
      <h1>This session cannot be shown</h1>
      <p>{visible(reason)}</p>
      {hello.value?.session === undefined && <p><a href={placeHref({ page: "list" })}>Back to the list</a></p>}
    </main>
  );
}

function titleOf(store: SessionStore): string {
  return store.standing.value.title ?? store.outline.value?.title ?? sessions.row(store.id)?.title ?? "Untitled session";
}

interface HeaderProps {
  store: SessionStore;
  outlined: boolean;
  setOutlined: (open: boolean) => void;
}

function SessionHeader({ store, outlined, setOutlined }: HeaderProps) {
  const [dialog, setDialog] = useState<"rename" | "delete" | undefined>(undefined);
  const title = firstLine(titleOf(store), 200);
  const standing = store.standing.value;
  const outline = store.outline.value;
  const state = questions.value.some((question) => question.session === store.id) ? "waiting" : standing.state;
  const shared = hello.value?.session !== undefined;
  useEffect(() => {
    document.title = `${state === "waiting" ? "● " : ""}${title} · Rethread`;
  }, [title, state]);
  return (
    <header class="session-header">
      {!shared && <a class="icon-button" href={placeHref({ page: "list" })} aria-label="Back to the list" title="Back to the list (u)"><Icon name="back" /></a>}
      <div class="session-names">
        <h1><Plain text={title} /></h1>
        <p class="session-facts">
          <StateBadge state={state} />
          {outline !== undefined && <Plain class="fact-project" text={folderName(outline.cwd)} />}
          {outline?.agents.at(-1) !== undefined && <Plain text={outline.agents.at(-1) ?? ""} />}
          <UsageFact store={store} />
          <CostFact store={store} />
          {outline?.forkOf !== undefined && !shared && <a href={placeHref({ page: "session", session: outline.forkOf })}>forked</a>}
        </p>
      </div>
      <Clients store={store} />
      <IconButton class="outline-button" icon="outline" label="Outline of turns" pressed={outlined} onClick={() => setOutlined(!outlined)} />
      <SessionMenu store={store} title={title} ask={setDialog} />
      {dialog === "rename" && <RenameDialog store={store} title={titleOf(store)} close={() => setDialog(undefined)} />}
      {dialog === "delete" && <DeleteDialog store={store} title={title} close={() => setDialog(undefined)} />}
    </header>
  );
}

function UsageFact({ store }: { store: SessionStore }) {
  const usage = store.standing.value.usage;
  if (usage === undefined) return null;
  const isKnown = usage.size > 0;
  return (
    <span title={`${usage.used.toLocaleString()} of ${usage.size.toLocaleString()} tokens`}>
      {isKnown ? `${Math.round((usage.used / usage.size) * 100)}%` : `${count(usage.used)} tokens`}
      {isKnown && <span class="fact-more"> of context</span>}
    </span>
  );
}

function CostFact({ store }: { store: SessionStore }) {
  const cost = store.standing.value.usage?.cost;
  return cost === undefined ? null : <span class="fact-cost">{money(cost.amount, cost.currency)}</span>;
}

function Clients({ store }: { store: SessionStore }) {
  const others = store.clients.value.filter((client) => !client.you);
  const [open, setOpen] = useState(false);
  if (others.length === 0) return null;
  const names = others.map((client) => visible(client.name) + (client.role === "observer" ? " (looking on)" : ""));
  return (
    <div class="menu" onKeyDown={(event) => event.key === "Escape" && setOpen(false)} onFocusOut={() => setOpen(false)}>
      <button type="button" class="clients" title={names.join(", ")} aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="people" />
        <span aria-hidden="true">{others.length}</span>
        <span class="unseen">{`Also here: ${names.join(", ")}`}</span>
      </button>
      {open && (
        <div class="menu-list clients-list">
          <p class="muted">Also here</p>
          <ul>{names.map((name, index) => <li key={index}>{name}</li>)}</ul>
        </div>
      )}
    </div>
  );
}

function SessionMenu({ store, title, ask }: { store: SessionStore; title: string; ask: (dialog: "rename" | "delete") => void }) {
  const isFull = hello.value?.role === "full";
  const archived = sessions.row(store.id) === undefined && sessions.complete.value;
  const link = () => {
    const address = new URL(location.href);
    address.hash = placeHref({ page: "session", session: store.id });
    void copy(address.href, "Link");
  };
  const whole = async () => {
    const markdown = await exported(store.id, "markdown");
    if (markdown !== undefined) await copy(markdown, "Session");
  };
  const leave = async (how: "archive" | "unarchive") => {
    if (await dispose(store.id, how)) location.hash = placeHref({ page: "list" });
  };
  return (
    <Menu label="Actions for this session" icon="more">
      {(close) => {
        const item = (act: () => void) => () => (close(), act());
        return (
          <>
            <MenuItem icon="link" onClick={item(link)}>Copy link</MenuItem>
            <MenuItem icon="copy" onClick={item(() => void whole())}>Copy as Markdown</MenuItem>
            <MenuItem icon="download" onClick={item(() => void saveFile(store.id, title, "markdown"))}>Export as Markdown</MenuItem>
            <MenuItem icon="download" onClick={item(() => void saveFile(store.id, title, "html"))}>Export as web page</MenuItem>
            <MenuItem icon="download" onClick={item(() => void saveFile(store.id, title, "jsonl"))}>Export as JSON lines</MenuItem>
            {isFull && <hr />}
            {isFull && <MenuItem icon="fork" onClick={item(() => void forkAndOpen(store, undefined))}>Fork</MenuItem>}
            {isFull && <MenuItem icon="edit" onClick={item(() => ask("rename"))}>Rename…</MenuItem>}
            {isFull && <MenuItem icon="archive" onClick={item(() => void leave(archived ? "unarchive" : "archive"))}>{archived ? "Bring back" : "Archive"}</MenuItem>}
            {isFull && <MenuItem icon="delete" danger onClick={item(() => ask("delete"))}>Delete…</MenuItem>}
          </>
        );
      }}
    </Menu>
  );
}

function RenameDialog({ store, title, close }: { store: SessionStore; title: string; close: () => void }) {
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const typed = String(new FormData(event.currentTarget as HTMLFormElement).get("title") ?? "").trim();
    close();
    const stored = typed === "" ? undefined : await rename(store.id, typed);
    if (stored !== undefined) store.standing.value = { ...store.standing.value, title: stored };
  };
  return (
    <Dialog title="Rename the session" onClose={close}>
      <form onSubmit={(event) => void send(event)}>
        <label class="field"><span class="field-name">Title</span><input name="title" defaultValue={title} autoFocus required maxLength={300} dir="auto" /></label>
        <div class="choices"><button type="submit" class="choice primary">Rename</button></div>
      </form>
    </Dialog>
  );
}

function DeleteDialog({ store, title, close }: { store: SessionStore; title: string; close: () => void }) {
  const remove = async () => {
    close();
    if (await dispose(store.id, "delete")) location.hash = placeHref({ page: "list" });
  };
  return (
    <Dialog title="Delete the session?" onClose={close}>
      <p>“{title}” is removed for everybody, with all its messages. This cannot be undone.</p>
      <div class="choices">
        <button type="button" class="choice reject" onClick={() => void remove()}>Delete</button>
        <button type="button" class="choice" onClick={close}>Keep</button>
      </div>
    </Dialog>
  );
}

function OpenPlan({ store }: { store: SessionStore }) {
  const [open, setOpen] = useState(false);
  const { plan, state } = store.standing.value;
  const steps = planSteps(plan);
  const done = steps.filter((step) => step.status === "completed").length;
  if (state === "idle" || steps.length === 0 || done === steps.length) return null;
  const current = steps.find((step) => step.status === "in_progress") ?? steps.find((step) => step.status !== "completed");
  return (
    <div class="open-plan">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="check" size={14} />
        <span class="muted">{`Plan ${done}/${steps.length}`}</span>
        <span class="open-plan-step">{firstLine(current?.content ?? "")}</span>
        <Icon name="chevron" size={12} />
      </button>
      {open && <PlanSteps plan={plan} />}
    </div>
  );
}

function OutlinePane({ store, open, close }: { store: SessionStore; open: boolean; close: () => void }) {
  const turns = store.outline.value?.turns ?? [];
  const now = Date.now();
  return (
    <nav class={open ? "outline open" : "outline"} aria-label="Outline of turns">
      <header>
        <h2>{plural(turns.length, "turn")}</h2>
        <IconButton icon="cross" label="Close the outline" onClick={close} />
      </header>
      <ol>
        {turns.map((turn) => (
          <li key={turn.turn}>
            <a
              href={turn.message === undefined ? placeHref({ page: "session", session: store.id }) : placeHref({ page: "session", session: store.id, message: turn.message })}
              onClick={(event) => {
                event.preventDefault();
                close();
                if (turn.message !== undefined) void store.toMessage(turn.message);
              }}
            >
              <span class="outline-prompt" dir="auto">{firstLine(turn.prompt, 90) || "(no text)"}</span>
              <span class="muted" title={moment(turn.time)}>
                {[ago(turn.time, now), turn.tools > 0 ? plural(turn.tools, "tool call") : "", turn.stopReason && turn.stopReason !== "end_turn" ? visible(turn.stopReason) : ""].filter(Boolean).join(" · ")}
              </span>
            </a>
          </li>
        ))}
      </ol>
    </nav>
  );
}
