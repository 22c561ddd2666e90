// The list of sessions: by project, or of one project; with a filter, and the hits of a search.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { placeHref } from "../core/address.ts";
import { ago, folderName, moment, plural } from "../core/format.ts";
import { grouped } from "../core/group.ts";
import { firstLine, visible } from "../core/visible.ts";
import { begin } from "../state/acting.ts";
import { hello } from "../state/link.ts";
import { asking, SessionList, sessions, type SessionRow } from "../state/list.ts";
import { hits, moreHits, query, search, searchFailed, searching, searchMore, type Hit } from "../state/search.ts";
import { Icon } from "./icons.tsx";
import { Dialog, IconButton, Plain, StateBadge, useNear } from "./parts.tsx";
import { helpOpen, nextTheme } from "./keys.ts";

type Filter = "all" | "running" | "waiting" | "archived";
const filter = signal<Filter>("all");
/** How many sessions of a project are shown before the project is opened. */
const FEW = 5;

export function ListPage({ cwd }: { cwd: string | undefined }) {
  const other = useMemo(() => (cwd === undefined && filter.value !== "archived" ? undefined : new SessionList(cwd, filter.value === "archived" ? "only" : "exclude")), [cwd, filter.value]);
  useEffect(() => {
    other?.open();
    return () => other?.close();
  }, [other]);
  useEffect(() => {
    const where = cwd === undefined ? "Sessions" : folderName(cwd);
    document.title = `${asking.value > 0 ? `(${asking.value}) ` : ""}${visible(where)} · Rethread`;
  }, [cwd, asking.value]);
  const list = other ?? sessions;
  const typed = query.value.trim();
  return (
    <div class="list-page">
      <Top />
      <main id="main" class="list-main">
        <div class="list-head">
          {cwd === undefined ? <h1>Sessions</h1> : <h1><a class="crumb" href={placeHref({ page: "list" })}>Sessions</a><Icon name="chevron" size={12} /><Plain text={folderName(cwd)} /></h1>}
          <Filters />
          {hello.value?.role === "full" && <NewSession cwd={cwd} />}
        </div>
        {typed === "" ? <Rows list={list} isGrouped={cwd === undefined} /> : <Found list={list} typed={typed} />}
      </main>
    </div>
  );
}

export function Top() {
  return (
    <header class="top">
      <a class="brand" href={placeHref({ page: "list" })} onClick={() => search("")}>Rethread</a>
      <label class="search">
        <Icon name="search" />
        <span class="unseen">Search all sessions</span>
        <input id="search" type="search" placeholder="Search all sessions" value={query.value} onInput={(event) => {
          if (location.hash.startsWith("#/usage")) location.hash = placeHref({ page: "list" });
          search(event.currentTarget.value);
        }} />
        <kbd aria-hidden="true">/</kbd>
      </label>
      <nav aria-label="Pages">
        <a class="icon-button" href={placeHref({ page: "usage" })} aria-label="Usage" title="Usage"><Icon name="chart" /></a>
        <IconButton icon="theme" label="Change between light and dark" onClick={nextTheme} />
        <IconButton icon="help" label="Keyboard shortcuts" onClick={() => (helpOpen.value = true)} />
      </nav>
    </header>
  );
}

function Filters() {
  const names: [Filter, string][] = [["all", "All"], ["running", "Running"], ["waiting", "Needs you"], ["archived", "Archived"]];
  return (
    <div class="filters" role="group" aria-label="Filter">
      {names.map(([name, words]) => (
        <button key={name} type="button" aria-pressed={filter.value === name} onClick={() => (filter.value = name)}>
          {words}
          {name === "waiting" && asking.value > 0 && <span class="badge">{asking.value}</span>}
        </button>
      ))}
    </div>
  );
}

function fits(row: SessionRow): boolean {
  if (filter.value === "running") return row.state === "running";
  if (filter.value === "waiting") return row.state === "waiting" || row.question !== undefined;
  return true;
}

interface Group {
  cwd: string;
  rows: SessionRow[];
}

function Rows({ list, isGrouped }: { list: SessionList; isGrouped: boolean }) {
  const rows = list.rows.value.filter(fits);
  const more = useNear(() => void list.more(), !list.complete.value);
  const groups = isGrouped ? [...grouped(rows, (row) => row.cwd)].map(([cwd, of]) => ({ cwd, rows: of })) : [];
  return (
    <>
      {isGrouped ? groups.map((group) => <Project key={group.cwd} group={group} complete={list.complete.value} />) : <ul class="rows">{rows.map((row) => <Row key={row.id} row={row} />)}</ul>}
      {rows.length === 0 && !list.loading.value && <Empty failed={list.failed.value} />}
      <div ref={more} class="more" aria-hidden="true" />
      {list.loading.value && <p class="muted center" role="status">Loading sessions…</p>}
    </>
  );
}

function Empty({ failed }: { failed: string | undefined }) {
  if (failed !== undefined) return <p class="muted center">The list could not be read: {visible(failed)}</p>;
  if (filter.value !== "all") return <p class="muted center">No such sessions.</p>;
  return (
    <div class="empty">
      <p>There are no sessions yet.</p>
      <p class="muted">Use Rethread in an editor, run <code>rethread chat</code>, or bring in sessions of other tools with <code>rethread import</code>.</p>
    </div>
  );
}

function Project({ group, complete }: { group: Group; complete: boolean }) {
  const hidden = group.rows.length - FEW;
  return (
    <section class="project" aria-label={visible(folderName(group.cwd))}>
      <header>
        <Icon name="folder" />
        <h2><a href={placeHref({ page: "project", cwd: group.cwd })}><Plain text={folderName(group.cwd) || "/"} /></a></h2>
        <Plain class="project-path" text={group.cwd} />
      </header>
      <ul class="rows">{group.rows.slice(0, FEW).map((row) => <Row key={row.id} row={row} />)}</ul>
      {hidden > 0 && <a class="project-more" href={placeHref({ page: "project", cwd: group.cwd })}>{complete ? `${hidden} more` : `More than ${hidden} more`}</a>}
    </section>
  );
}

function Row({ row }: { row: SessionRow }) {
  const state = row.question === undefined ? row.state : "waiting";
  return (
    <li class="row" data-row>
      <a href={placeHref({ page: "session", session: row.id })}>
        <span class="row-title"><bdi>{firstLine(row.title ?? "", 160) || "Untitled session"}</bdi></span>
        {row.question !== undefined && <span class="row-question">{firstLine(row.question, 60)}</span>}
        <StateBadge state={state} quiet />
        {row.agent !== "" && <Plain class="row-agent" text={row.agent} />}
        {row.clients > 0 && <span class="row-clients" title={`${plural(row.clients, "client")} attached`}><Icon name="people" size={12} />{row.clients}<span class="unseen"> attached</span></span>}
        <time class="row-time" dateTime={row.updatedAt} title={moment(row.updatedAt)}>{ago(row.updatedAt, Date.now())}</time>
      </a>
    </li>
  );
}

/** Sessions whose title, agent or project has the typed words, and messages that were found. */
function Found({ list, typed }: { list: SessionList; typed: string }) {
  const words = typed.toLowerCase().split(/\s+/);
  const rows = list.rows.value.filter((row) => {
    const known = `${row.title ?? ""} ${row.agent} ${row.cwd}`.toLowerCase();
    return fits(row) && words.every((word) => known.includes(word));
  });
  const more = useNear(() => void searchMore(), moreHits.value && !searching.value);
  // The filter is for all sessions, not only for those that were scrolled to.
  useEffect(() => void (list.complete.value || list.loading.value || list.more()), [list, list.loading.value]);
  return (
    <>
      {rows.length > 0 && (
        <section class="project" aria-label="Sessions">
          <header><h2>{plural(rows.length, "session")}</h2></header>
          <ul class="rows">{rows.slice(0, 50).map((row) => <Row key={row.id} row={row} />)}</ul>
        </section>
      )}
      <section class="project" aria-label="Messages" aria-busy={searching.value}>
        <header><h2>Messages</h2></header>
        <ul class="hits">{[...grouped(hits.value, (hit) => hit.session)].map(([session, group]) => <HitGroup key={session} group={group} />)}</ul>
        {searchFailed.value !== undefined && <p class="muted">{visible(searchFailed.value)}</p>}
        {searching.value && <p class="muted" role="status">Searching…</p>}
        {!searching.value && hits.value.length === 0 && searchFailed.value === undefined && <p class="muted" role="status">No message has these words.</p>}
        <div ref={more} class="more" aria-hidden="true" />
      </section>
    </>
  );
}

const SPEAKERS: Record<string, string> = { user: "Prompt", agent: "Answer", thought: "Thought", tool: "Tool call", terminal: "Terminal", plan: "Plan", compaction: "Summary" };

function HitGroup({ group }: { group: Hit[] }) {
  const first = group[0];
  if (first === undefined) return null;
  return (
    <li>
      <header>
        <h3 class="hit-title"><a href={placeHref({ page: "session", session: first.session })}><Plain text={firstLine(first.title ?? "", 120) || "Untitled session"} /></a></h3>
        <span class="muted">{[visible(folderName(first.cwd)), visible(first.agent)].filter(Boolean).join(" · ")}</span>
      </header>
      <ul>{group.map((hit, index) => <HitRow key={index} hit={hit} />)}</ul>
    </li>
  );
}

function HitRow({ hit }: { hit: Hit }) {
  const href = placeHref(hit.message === undefined ? { page: "session", session: hit.session } : { page: "session", session: hit.session, message: hit.message });
  return (
    <li class="hit" data-row>
      <a href={href}>
        <span class="muted">{SPEAKERS[hit.speaker] ?? visible(hit.speaker)}</span>
        <span class="hit-passage" dir="auto">{hit.passage.map((part, index) => (part.match ? <mark key={index}>{visible(part.text)}</mark> : visible(part.text)))}</span>
        <time class="muted" dateTime={hit.time} title={moment(hit.time)}>{ago(hit.time, Date.now())}</time>
      </a>
    </li>
  );
}

function NewSession({ cwd }: { cwd: string | undefined }) {
  const [open, setOpen] = useState(false);
  const known = [...new Set(sessions.rows.value.map((row) => row.cwd))].slice(0, 50);
  const agents = hello.value?.agents ?? [];
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const agent = String(form.get("agent") ?? "");
    setOpen(false);
    const made = await begin(String(form.get("cwd") ?? "").trim(), agent === "" ? undefined : agent);
    if (made !== undefined) location.hash = placeHref({ page: "session", session: made });
  };
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}><Icon name="plus" size={14} /> New</button>
      {open && (
        <Dialog title="New session" onClose={() => setOpen(false)}>
          <form onSubmit={(event) => void send(event)}>
            <label class="field">
              <span class="field-name">Folder on the server</span>
              <input name="cwd" list="folders" required pattern="(/|[A-Za-z]:).*" title="An absolute path" defaultValue={cwd ?? known[0] ?? ""} autoFocus spellcheck={false} />
              <datalist id="folders">{known.map((path) => <option key={path} value={path} />)}</datalist>
            </label>
            {agents.length > 0 && (
              <label class="field">
                <span class="field-name">Agent</span>
                <select name="agent"><option value="">Default</option>{agents.map((name) => <option key={name} value={name}>{visible(name)}</option>)}</select>
              </label>
            )}
            <div class="choices"><button type="submit" class="choice primary">Begin</button></div>
          </form>
        </Dialog>
      )}
    </>
  );
}
