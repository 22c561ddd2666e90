// Tool calls as cards: what was called, how it ended, its input and output, changes of files, terminals.

import { useMemo, useState } from "preact/hooks";
import { terminalLines } from "../core/ansi.ts";
import { readPatch, type DiffFile } from "../core/diff.ts";
import type { Item } from "../core/item.ts";
import { fields, isObject, list, number, pretty, text, type Json, type JsonObject } from "../core/json.ts";
import { pathInside } from "../core/format.ts";
import { firstLine, visible, visibleLines } from "../core/visible.ts";
import { ContentBlock, Unknown } from "./content.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { CodeBlock } from "./markdown.tsx";
import { CopyButton, Plain } from "./parts.tsx";

const KIND_ICONS: Record<string, IconName> = {
  read: "read",
  edit: "edit",
  delete: "delete",
  move: "move",
  search: "search",
  execute: "execute",
  think: "think",
  fetch: "fetch",
};

const STATUS_WORDS: Record<string, string> = {
  pending: "Pending",
  in_progress: "Running",
  paused: "Paused",
  completed: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

export function ToolCard({ item, terminal, cwd }: { item: Item; terminal: (id: string) => Item | undefined; cwd: string | undefined }) {
  const status = text(item.members["status"]) ?? "pending";
  const blocks = item.parts.flatMap((part) => (part.type === "block" ? [part.block] : []));
  const diffs = useMemo(() => blocks.filter((block) => block["type"] === "diff").flatMap(diffFiles), [item]);
  const rows = diffs.reduce((sum, file) => sum + file.rows.length, 0);
  const shownByItself = (rows > 0 && rows <= 60) || (status === "in_progress" && blocks.some((block) => block["type"] === "terminal"));
  const [chosen, setChosen] = useState<boolean | undefined>(undefined);
  const open = chosen ?? shownByItself;
  const title = text(item.members["title"]) ?? text(item.members["name"]) ?? "Tool call";
  return (
    <div class={`tool tool-${status}`}>
      <button type="button" class="tool-head" aria-expanded={open} onClick={() => setChosen(!open)}>
        <Icon name={KIND_ICONS[text(item.members["kind"]) ?? ""] ?? "tool"} />
        <Plain class="tool-title" text={firstLine(title, 300)} />
        <DiffSum files={diffs} />
        <span class={`status status-${status}`}>{STATUS_WORDS[status] ?? visible(status)}</span>
        <Icon name="chevron" size={12} />
      </button>
      {open && <ToolBody item={item} blocks={blocks} diffs={diffs} terminal={terminal} cwd={cwd} />}
    </div>
  );
}

interface BodyProps {
  item: Item;
  blocks: JsonObject[];
  diffs: DiffFile[];
  terminal: (id: string) => Item | undefined;
  cwd: string | undefined;
}

function ToolBody({ item, blocks, diffs, terminal, cwd }: BodyProps) {
  const input = item.members["rawInput"];
  const output = item.members["rawOutput"];
  const locations = list(item.members["locations"]).filter(isObject);
  const command = text(fields(input)["command"]);
  return (
    <div class="tool-body">
      {locations.length > 0 && diffs.length === 0 && (
        <ul class="locations" aria-label="Files">
          {locations.slice(0, 20).map((location, index) => (
            <li key={index}>
              <Plain text={`${pathInside(text(location["path"]) ?? "", cwd)}${location["line"] ? `:${number(location["line"])}` : ""}`} />
            </li>
          ))}
        </ul>
      )}
      {command !== undefined && <CodeBlock code={visibleLines(command)} language="bash" />}
      {diffs.map((file, index) => (
        <Diff key={index} file={file} cwd={cwd} />
      ))}
      {blocks.filter((block) => block["type"] !== "diff").map((block, index) => (
        <ToolContent key={index} block={block} terminal={terminal} />
      ))}
      {isData(input) && command === undefined && <Data label="Input" value={input} />}
      {isData(output) && <Data label="Output" value={output} />}
      {item.parts.length === 0 && !isData(input) && !isData(output) && locations.length === 0 && <p class="muted">Nothing more is known of it.</p>}
    </div>
  );
}

function isData(value: Json | undefined): value is Json {
  return value !== undefined && value !== null && !(isObject(value) && Object.keys(value).length === 0);
}

function ToolContent({ block, terminal }: { block: JsonObject; terminal: (id: string) => Item | undefined }) {
  if (block["type"] === "content") return <ContentBlock block={fields(block["content"])} plain />;
  if (block["type"] !== "terminal") return <Unknown what={text(block["type"]) ?? "content"} value={block} />;
  const found = terminal(text(block["terminalId"]) ?? "");
  return found === undefined ? <p class="muted">The output of this terminal is not loaded.</p> : <Terminal item={found} />;
}

function Data({ label, value }: { label: string; value: Json }) {
  const shown = visibleLines(pretty(value));
  return (
    <details class="data">
      <summary>{label}</summary>
      <CodeBlock code={shown} language={typeof value === "string" ? "" : "json"} />
    </details>
  );
}

export function DiffSum({ files }: { files: DiffFile[] }) {
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  if (files.length === 0) return null;
  return (
    <span class="diff-sum">
      <span class="unseen">{`${added} lines added, ${removed} removed`}</span>
      <span class="added" aria-hidden="true">+{added}</span>
      <span class="removed" aria-hidden="true">−{removed}</span>
    </span>
  );
}

/** The files of a diff. One without a patch has only the names of the files. */
export function diffFiles(block: JsonObject): DiffFile[] {
  const patch = text(fields(block["patch"])["text"]);
  const changes = list(block["changes"]).filter(isObject);
  const files = patch === undefined ? [] : readPatch(patch);
  if (files.length === 0) {
    return changes.map((change) => ({
      path: text(change["path"]) ?? "",
      from: text(change["oldPath"]),
      operation: "modify",
      rows: [],
      added: 0,
      removed: 0,
    }));
  }
  // The patch has paths without their beginning; the changes have them whole.
  return files.map((file) => {
    const whole = changes.map((change) => text(change["path"]) ?? "").find((path) => path.endsWith(file.path));
    return whole === undefined ? file : { ...file, path: whole };
  });
}

const MOST_ROWS = 400;

export function Diff({ file, cwd }: { file: DiffFile; cwd: string | undefined }) {
  const [all, setAll] = useState(false);
  const rows = all ? file.rows : file.rows.slice(0, MOST_ROWS);
  const words = { add: "Added", delete: "Deleted", modify: "", move: "Moved" }[file.operation];
  return (
    <div class="diff" dir="ltr">
      <div class="diff-path">
        <Plain text={[...(file.from === undefined ? [] : [file.from]), file.path].map((path) => pathInside(path, cwd)).join(" → ")} />
        {words !== "" && <span class="muted">{words}</span>}
      </div>
      {rows.length > 0 && (
        <div class="diff-rows" role="group" aria-label={`Changes of ${visible(file.path)}`} tabIndex={0}>
          <table>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index} class={`diff-${row.kind}`}>
                  <td class="line-number">{row.before ?? ""}</td>
                  <td class="line-number">{row.after ?? ""}</td>
                  <td class="sign">{{ added: "+", removed: "−", context: "", hunk: "" }[row.kind]}</td>
                  <td class="line">{row.kind === "hunk" ? visible(row.text || "⋯") : visible(row.text.replace(/\t/g, "    ")).slice(0, 4000)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {file.rows.length > rows.length && (
        <button type="button" class="show-more" onClick={() => setAll(true)}>
          Show {(file.rows.length - rows.length).toLocaleString()} more lines
        </button>
      )}
    </div>
  );
}

const FEW_LINES = 40;
const MANY_LINES = 2_000;

export function Terminal({ item }: { item: Item }) {
  const [many, setMany] = useState(false);
  const { lines, skipped } = useMemo(() => terminalLines(item.output, many ? MANY_LINES : FEW_LINES), [item.output, many]);
  const command = text(item.members["command"]);
  const exit = item.members["exitStatus"];
  const code = number(fields(exit)["exitCode"]);
  const signal = text(fields(exit)["signal"]);
  return (
    <div class="terminal" dir="ltr">
      {command !== undefined && (
        <div class="terminal-command">
          <span aria-hidden="true">$ </span>
          {visibleLines(command)}
        </div>
      )}
      {skipped > 0 && !many && (
        <button type="button" class="show-more" onClick={() => setMany(true)}>
          Show {Math.min(skipped, MANY_LINES).toLocaleString()} earlier lines
        </button>
      )}
      <pre tabIndex={0} role="group" aria-label="Terminal output">
        {lines.map((runs, index) => (
          <div key={skipped + index}>
            {runs.length === 0 ? "\n" : runs.map((run, at) => (run.classes === "" ? visible(run.text.replace(/\t/g, "        ")) : <span key={at} class={run.classes}>{visible(run.text.replace(/\t/g, "        "))}</span>))}
          </div>
        ))}
      </pre>
      <div class="terminal-end">
        {exit == null ? "Running…" : signal !== undefined ? `Ended by ${visible(signal)}` : code === 0 ? "Exit 0" : `Exit ${code ?? "?"}`}
        <CopyButton label="Copy output" text={() => lines.map((runs) => runs.map((run) => run.text).join("")).join("\n")} />
      </div>
    </div>
  );
}
