// Usage: turns, tokens and cost by day, agent and model.

import { useEffect, useMemo, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { at, isObject, list, number, text, type JsonObject } from "../core/json.ts";
import { count, money } from "../core/format.ts";
import { grouped } from "../core/group.ts";
import { visible } from "../core/visible.ts";
import { onReady, request } from "../state/link.ts";
import { Top } from "./list.tsx";

interface UsageRow {
  day: string;
  agent: string;
  model: string;
  turns: number;
  input: number;
  output: number;
  cost: number;
  currency: string;
}

type Measure = "tokens" | "turns" | "cost";
const SPANS: [number, string][] = [[7, "7 days"], [30, "30 days"], [90, "90 days"], [365, "1 year"]];
const DAY = 86_400_000;
const rows = signal<readonly UsageRow[] | undefined>(undefined);
const failed = signal<string | undefined>(undefined);

export function UsagePage() {
  const [days, setDays] = useState(30);
  const [chosen, setMeasure] = useState<Measure | undefined>(undefined);
  useEffect(() => onReady(() => void read(days)), [days]);
  useEffect(() => void (document.title = "Usage · Rethread"), []);
  const known = rows.value ?? [];
  const measure = chosen ?? told(known);
  const currency = known.find((row) => row.currency !== "")?.currency ?? "USD";
  const value = (row: UsageRow) => (measure === "turns" ? row.turns : measure === "cost" ? row.cost : row.input + row.output);
  const words = (amount: number) => (measure === "cost" ? money(amount, currency) : count(amount));
  return (
    <div class="list-page">
      <Top />
      <main id="main" class="list-main">
        <div class="list-head">
          <h1>Usage</h1>
          <div class="filters" role="group" aria-label="Time">
            {SPANS.map(([span, name]) => <button key={span} type="button" aria-pressed={days === span} onClick={() => setDays(span)}>{name}</button>)}
          </div>
          <div class="filters" role="group" aria-label="Measure">
            {(["tokens", "turns", "cost"] as const).map((name) => <button key={name} type="button" aria-pressed={measure === name} onClick={() => setMeasure(name)}>{name[0]?.toUpperCase() + name.slice(1)}</button>)}
          </div>
        </div>
        {failed.value !== undefined && <p class="muted center" role="alert">{visible(failed.value)}</p>}
        {rows.value === undefined && failed.value === undefined && <p class="muted center" role="status">Loading…</p>}
        {rows.value !== undefined && (
          <>
            <Totals rows={known} currency={currency} />
            <Chart rows={known} days={days} value={value} words={words} measure={measure} />
            <div class="usage-tables">
              <Table title="By agent" rows={known} by={(row) => row.agent} currency={currency} />
              <Table title="By model" rows={known} by={(row) => row.model} currency={currency} />
            </div>
          </>
        )}
      </main>
    </div>
  );
}

/** What is shown first: what the agents tell of. Not all of them tell how many tokens they use, or what these cost. */
function told(all: readonly UsageRow[]): Measure {
  if (all.some((row) => row.input + row.output > 0)) return "tokens";
  return all.some((row) => row.cost > 0) ? "cost" : "turns";
}

/** A number of tokens; a dash if nobody has told any. */
function tokens(amount: number, turns: number): string {
  return amount === 0 && turns > 0 ? "–" : count(amount);
}

async function read(days: number): Promise<void> {
  try {
    const since = new Date(Date.now() - (days - 1) * DAY);
    since.setHours(0, 0, 0, 0);
    const answer = await request("_rethread/usage", { since: since.toISOString() });
    rows.value = list(at(answer, "rows")).filter(isObject).map(readRow);
    failed.value = undefined;
  } catch (error) {
    failed.value = `The usage could not be read: ${(error as Error).message}`;
  }
}

function readRow(row: JsonObject): UsageRow {
  return {
    day: text(row["day"]) ?? "",
    agent: text(row["agent"]) || "unknown",
    model: text(row["model"]) || "unknown",
    turns: number(row["turns"]) ?? 0,
    input: number(row["inputTokens"]) ?? 0,
    output: number(row["outputTokens"]) ?? 0,
    cost: number(at(row, "cost", "amount")) ?? 0,
    currency: text(at(row, "cost", "currency")) ?? "",
  };
}

function sum(of: readonly UsageRow[], value: (row: UsageRow) => number): number {
  return of.reduce((total, row) => total + value(row), 0);
}

function Totals({ rows: all, currency }: { rows: readonly UsageRow[]; currency: string }) {
  const turns = sum(all, (row) => row.turns);
  return (
    <dl class="totals">
      <div><dt>Turns</dt><dd>{turns.toLocaleString()}</dd></div>
      <div><dt>Tokens in</dt><dd>{tokens(sum(all, (row) => row.input), turns)}</dd></div>
      <div><dt>Tokens out</dt><dd>{tokens(sum(all, (row) => row.output), turns)}</dd></div>
      <div><dt>Cost</dt><dd>{money(sum(all, (row) => row.cost), currency)}</dd></div>
    </dl>
  );
}

interface ChartProps {
  rows: readonly UsageRow[];
  days: number;
  value: (row: UsageRow) => number;
  words: (amount: number) => string;
  measure: Measure;
}

const SERIES = 5;
const HEIGHT = 160;

/** Bars by day, with a colour for each of the largest agents. */
function Chart({ rows: all, days, value, words, measure }: ChartProps) {
  const agents = useMemo(() => {
    const totals = new Map<string, number>();
    for (const row of all) totals.set(row.agent, (totals.get(row.agent) ?? 0) + value(row));
    return [...totals].sort((one, other) => other[1] - one[1]).map(([agent]) => agent);
  }, [all, measure]);
  const dates = Array.from({ length: days }, (_, index) => localDay(Date.now() - (days - 1 - index) * DAY));
  const byDay = new Map(dates.map((day) => [day, all.filter((row) => row.day === day)]));
  const most = Math.max(1e-9, ...dates.map((day) => sum(byDay.get(day) ?? [], value)));
  const width = 720;
  const step = width / days;
  return (
    <figure class="chart">
      {most > 1e-6 ? <span class="chart-most muted">{words(most)}</span> : <p class="chart-empty muted">Nothing in this time.</p>}
      <svg viewBox={`0 0 ${width} ${HEIGHT + 22}`} role="img" aria-label={`${measure} by day; the most on one day is ${words(most)}`} preserveAspectRatio="none">
        {[0.25, 0.5, 0.75, 1].map((part) => <line key={part} class="grid" x1="0" x2={width} y1={HEIGHT - part * (HEIGHT - 8)} y2={HEIGHT - part * (HEIGHT - 8)} />)}
        {dates.map((day, index) => {
          let top = HEIGHT;
          return (
            <g key={day}>
              <title>{`${shortDay(day)}: ${words(sum(byDay.get(day) ?? [], value))}`}</title>
              <rect class="hover" x={index * step} y="0" width={step} height={HEIGHT} />
              {agents.map((agent, at) => {
                const amount = sum((byDay.get(day) ?? []).filter((row) => row.agent === agent), value);
                const height = (amount / most) * (HEIGHT - 8);
                top -= height;
                return amount > 0 && <rect key={agent} class={`series series-${Math.min(at, SERIES)}`} x={index * step + step * 0.12} y={top} width={step * 0.76} height={Math.max(height, 1)} />;
              })}
            </g>
          );
        })}
      </svg>
      <figcaption>
        <span class="muted">{shortDay(dates[0])}</span>
        <span class="legend">{agents.slice(0, SERIES + 1).map((agent, index) => <span key={agent}><i class={`key series-${index}`} aria-hidden="true" />{visible(index < SERIES ? agent : "other")}</span>)}</span>
        <span class="muted">{shortDay(dates.at(-1))}</span>
      </figcaption>
    </figure>
  );
}

function shortDay(day: string | undefined): string {
  const [year = 0, month = 1, date = 1] = (day ?? "").split("-").map(Number);
  return new Date(year, month - 1, date).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

function localDay(time: number): string {
  const date = new Date(time);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function Table({ title, rows: all, by, currency }: { title: string; rows: readonly UsageRow[]; by: (row: UsageRow) => string; currency: string }) {
  const sorted = [...grouped(all, by)].sort((one, other) => sum(other[1], (row) => row.turns) - sum(one[1], (row) => row.turns));
  return (
    <section class="usage-table">
      <h2>{title}</h2>
      <table>
        <thead><tr><th scope="col">Name</th><th scope="col" class="align-right">Turns</th><th scope="col" class="align-right">In</th><th scope="col" class="align-right">Out</th><th scope="col" class="align-right">Cost</th></tr></thead>
        <tbody>
          {sorted.map(([name, of]) => (
            <tr key={name}>
              <th scope="row"><bdi>{visible(name)}</bdi></th>
              <td class="align-right">{sum(of, (row) => row.turns).toLocaleString()}</td>
              <td class="align-right">{tokens(sum(of, (row) => row.input), sum(of, (row) => row.turns))}</td>
              <td class="align-right">{tokens(sum(of, (row) => row.output), sum(of, (row) => row.turns))}</td>
              <td class="align-right">{money(sum(of, (row) => row.cost), currency)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length === 0 && <p class="muted">Nothing in this time.</p>}
    </section>
  );
}
