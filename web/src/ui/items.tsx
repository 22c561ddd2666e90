// The items of a timeline, each drawn by its subject.

import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { itemText, type Item } from "../core/item.ts";
import { at, fields, list, text } from "../core/json.ts";
import { clock, moment } from "../core/format.ts";
import { placeHref } from "../core/address.ts";
import { planSteps } from "../core/standing.ts";
import { firstLine, visible, visibleLines } from "../core/visible.ts";
import { hello } from "../state/link.ts";
import type { SessionStore } from "../state/session.ts";
import { ContentBlock, LongText, Unknown } from "./content.tsx";
import { forkAndOpen } from "./actions.ts";
import { Icon } from "./icons.tsx";
import { copy, IconButton, Plain } from "./parts.tsx";
import { Terminal, ToolCard } from "./tool.tsx";

interface ItemProps {
  item: Item;
  store: SessionStore;
  /** Whether it is being written now. */
  growing: boolean;
  terminal: (id: string) => Item | undefined;
  /** Changes with what `terminal` gives, for items that show one. */
  terminals: unknown;
  /** The name of its sub-agent, if what is above is not of the same one. */
  of: string | undefined;
}

export const ItemView = memo(
  (props: ItemProps) => {
    const { item } = props;
    const drawn = draw(props);
    if (drawn === null) return null;
    const nested = item.session === undefined && item.subject !== "subagent" ? "" : " nested";
    return (
      <article class={`item item-${item.subject}${nested}`} data-key={item.key} data-id={item.id} aria-label={labelOf(item)} tabIndex={-1}>
        {props.of !== undefined && <SubagentName name={props.of} />}
        {drawn}
      </article>
    );
  },
  (before: ItemProps, after: ItemProps) =>
    before.item === after.item && before.growing === after.growing && before.terminals === after.terminals && before.of === after.of,
);

function labelOf(item: Item): string {
  const words: Record<Item["subject"], string> = {
    user: "Prompt",
    agent: "Answer",
    thought: "Thought",
    tool: `Tool call: ${firstLine(text(item.members["title"]) ?? "", 80)}`,
    terminal: "Terminal",
    plan: "Plan",
    compaction: "Compaction",
    notice: "Notice",
    event: "Event",
    subagent: "Sub-agent",
    other: "Data",
  };
  return item.time === undefined ? words[item.subject] : `${words[item.subject]}, ${clock(item.time)}`;
}

function draw({ item, store, growing, terminal }: ItemProps) {
  switch (item.subject) {
    case "user":
      return <UserMessage item={item} store={store} />;
    case "agent":
      return <AgentMessage item={item} store={store} growing={growing} />;
    case "thought":
      return <Thought item={item} growing={growing} />;
    case "tool":
      return <ToolCard item={item} terminal={terminal} cwd={store.cwd.value} />;
    case "terminal":
      return <Terminal item={item} />;
    case "plan":
      return <PlanCard item={item} />;
    case "compaction":
      return <Compaction item={item} />;
    case "notice":
      return <Marker words={[text(item.members["title"]), text(item.members["description"])].filter(Boolean).join(": ")} />;
    case "event":
      return <EventMarker item={item} />;
    case "subagent":
      return <SubagentName name={subagentName(item)} />;
    case "other":
      return <Unknown what={text(item.members["sessionUpdate"]) ?? "update"} value={item.members} />;
  }
}

export function subagentName(item: Item): string {
  return firstLine(text(item.members["title"]) ?? text(item.members["name"]) ?? "", 120) || "Sub-agent";
}

function SubagentName({ name }: { name: string }) {
  return (
    <p class="subagent">
      <Icon name="fork" size={14} />
      <span class="unseen">Sub-agent: </span>
      <Plain text={name} />
    </p>
  );
}

function Parts({ item, store, growing }: { item: Item; store: SessionStore; growing: boolean }) {
  const whole = async () => {
    const found = await store.whole(item.id);
    return list(at(found, "update", "content")).map((block) => text(at(block, "text")) ?? "").join("");
  };
  return (
    <>
      {item.parts.map((part, index) =>
        part.type === "text" ? (
          <LongText key={index} text={part.text} growing={growing && index === item.parts.length - 1} cut={item.cut} whole={whole} />
        ) : (
          <ContentBlock key={index} block={part.block} />
        ),
      )}
    </>
  );
}

function Actions({ item, store }: { item: Item; store: SessionStore }) {
  const link = () => {
    const address = new URL(location.href);
    address.hash = placeHref({ page: "session", session: store.id, message: item.id });
    void copy(address.href, "Link");
  };
  const isFull = hello.value?.role === "full";
  return (
    <div class="item-actions">
      <IconButton icon="link" label="Copy link to this message" onClick={link} />
      <IconButton icon="copy" label="Copy as Markdown" onClick={() => void copy(itemText(item), "Message")} />
      {isFull && item.session === undefined && (
        <IconButton icon="fork" label="Fork from here" onClick={() => void forkAndOpen(store, item.id)} />
      )}
    </div>
  );
}

function UserMessage({ item, store }: { item: Item; store: SessionStore }) {
  const client = text(at(item.meta, "rethread", "client", "name"));
  return (
    <>
      <header class="who">
        <span class="name">Prompt</span>
        {client !== undefined && <span class="muted">from {visible(client)}</span>}
        <time class="muted" dateTime={item.time} title={moment(item.time)}>{clock(item.time)}</time>
        <Actions item={item} store={store} />
      </header>
      <Parts item={item} store={store} growing={false} />
    </>
  );
}

function AgentMessage({ item, store, growing }: { item: Item; store: SessionStore; growing: boolean }) {
  return (
    <>
      <Parts item={item} store={store} growing={growing} />
      <Actions item={item} store={store} />
    </>
  );
}

function Thought({ item, growing }: { item: Item; growing: boolean }) {
  const [open, setOpen] = useState(false);
  const said = itemText(item);
  return (
    <div class="thought">
      <button type="button" class="thought-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="think" />
        <span>{growing ? "Thinking" : "Thought"}</span>
        {!open && <span class="thought-first">{firstLine(said.replace(/[*_#`]/g, ""))}</span>}
        <Icon name="chevron" size={12} />
      </button>
      {open && <LongText text={said} growing={growing} cut={item.cut} />}
    </div>
  );
}

function PlanCard({ item }: { item: Item }) {
  const plan = fields(item.members["plan"]);
  const steps = planSteps(plan);
  const prose = text(plan["content"]) ?? text(plan["uri"]);
  if (steps.length === 0 && prose === undefined) return <Unknown what="plan" value={plan} />;
  const done = steps.filter((step) => step.status === "completed").length;
  return (
    <div class="plan">
      <div class="plan-head">
        <span class="name">Plan</span>
        {steps.length > 0 && <span class="muted">{done} of {steps.length} done</span>}
      </div>
      {steps.length > 0 ? <PlanSteps plan={plan} /> : <LongText text={prose ?? ""} />}
    </div>
  );
}

export function PlanSteps({ plan }: { plan: Parameters<typeof planSteps>[0] }) {
  return (
    <ol class="plan-steps">
      {planSteps(plan).map((step, index) => (
        <li key={index} class={`step-${step.status}`}>
          <span class="unseen">{{ completed: "Done: ", in_progress: "In progress: " }[step.status] ?? "To do: "}</span>
          <span class="step-mark" aria-hidden="true">{step.status === "completed" && <Icon name="check" size={12} />}</span>
          <span dir="auto">{visible(step.content)}</span>
        </li>
      ))}
    </ol>
  );
}

function Compaction({ item }: { item: Item }) {
  const status = text(item.members["status"]);
  const words = status === "in_progress" ? "Compacting the conversation" : status === "failed" ? "The compaction failed" : "Conversation compacted";
  const summary = itemText(item);
  const [open, setOpen] = useState(false);
  return (
    <>
      <div class={status === "failed" ? "marker marker-bad" : "marker"}>
        {summary === "" ? words : (
          <button type="button" class="marker-button" aria-expanded={open} onClick={() => setOpen(!open)}>
            {words} · {open ? "Hide summary" : "Show summary"} <Icon name="chevron" size={12} />
          </button>
        )}
      </div>
      {open && <div class="compaction-summary"><LongText text={summary} cut={item.cut} /></div>}
    </>
  );
}

const STOPS: Record<string, string> = {
  cancelled: "Cancelled",
  max_tokens: "Stopped: the answer reached its longest length",
  max_turn_requests: "Stopped: too many requests in one turn",
  refusal: "The agent refused to go on",
};

/** The beginning and a normal end of a turn are seen without words. */
function EventMarker({ item }: { item: Item }) {
  const { members } = item;
  const kind = text(members["type"]);
  if (kind === "turn_started" || kind === "cancel_asked") return null;
  if (kind === "turn_ended") {
    const reason = text(members["stopReason"]) ?? "";
    const error = text(members["error"]) ?? text(at(members["error"], "message"));
    if (error === undefined && (reason === "end_turn" || reason === "")) return null;
    const words = STOPS[reason] ?? `The turn ended: ${reason}`;
    return <Marker words={error === undefined ? words : `The turn failed: ${error}`} bad={error !== undefined || reason === "error"} />;
  }
  const words = text(members["text"]);
  return words === undefined ? <Unknown what={kind ?? "event"} value={members} /> : <Marker words={words} />;
}

function Marker({ words, bad = false }: { words: string; bad?: boolean }) {
  const shown = words.charAt(0).toUpperCase() + words.slice(1);
  return (
    <div class={bad ? "marker marker-bad" : "marker"}>
      <bdi>{visibleLines(shown)}</bdi>
    </div>
  );
}
