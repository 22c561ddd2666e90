// Draws Markdown and code as elements.

import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { CodeRun } from "../core/highlight.ts";
import { parseMarkdown, safeHref, type MarkdownBlock, type MarkdownNode } from "../core/markdown.ts";
import { visible } from "../core/visible.ts";
import { CopyButton } from "./parts.tsx";

/** A message as Markdown. While it grows, only its last blocks are drawn again. */
export function Markdown({ text, growing = false }: { text: string; growing?: boolean }) {
  const before = useRef<MarkdownBlock[]>([]);
  const blocks = useMemo(() => (before.current = parseMarkdown(text, before.current)), [text]);
  return (
    <div class="markdown" dir="auto">
      {blocks.map((block, index) => (
        <Block key={block.start} source={block.source} nodes={block.nodes} growing={growing && index === blocks.length - 1} />
      ))}
    </div>
  );
}

interface BlockProps {
  source: string;
  nodes: MarkdownNode[];
  growing: boolean;
}

const Block = memo(
  ({ nodes, growing }: BlockProps) => <>{nodes.map((node, index) => draw(node, index, growing))}</>,
  (before: BlockProps, after: BlockProps) => before.source === after.source && before.growing === after.growing,
);

function drawAll(nodes: MarkdownNode[], growing: boolean): ComponentChildren {
  return nodes.map((node, index) => draw(node, index, growing));
}

function draw(node: MarkdownNode, key: number, growing: boolean): ComponentChildren {
  switch (node.type) {
    case "text":
      return node.text;
    case "code":
      return <code key={key}>{node.text}</code>;
    case "fence":
      return <CodeBlock key={key} code={node.text} language={node.language} growing={growing} />;
    case "break":
      return <br key={key} />;
    case "rule":
      return <hr key={key} />;
    case "image":
      return <Link key={key} href={node.source} label={`image: ${node.text || node.source}`} />;
    case "link":
      return (
        <Link key={key} href={node.href}>
          {drawAll(node.children, growing)}
        </Link>
      );
    case "heading":
      // Agents begin with any level and skip some; below the title of the page, all of them are of the next level.
      return (
        <p key={key} class={`heading h${node.level}`} role="heading" aria-level={2}>
          {drawAll(node.children, growing)}
        </p>
      );
    case "ordered":
      return (
        <ol key={key} start={node.start}>
          {drawAll(node.children, growing)}
        </ol>
      );
    case "cell": {
      const align = node.align === undefined ? "" : `align-${node.align}`;
      return node.head ? (
        <th key={key} class={align} scope="col">{drawAll(node.children, growing)}</th>
      ) : (
        <td key={key} class={align}>{drawAll(node.children, growing)}</td>
      );
    }
    case "table":
      return (
        <div key={key} class="table" role="group" aria-label="Table" tabIndex={0}>
          <table>{drawAll(node.children, growing)}</table>
        </div>
      );
    case "paragraph":
      return <p key={key} dir="auto">{drawAll(node.children, growing)}</p>;
    case "tight":
      return drawAll(node.children, growing);
    case "em":
      return <em key={key}>{drawAll(node.children, growing)}</em>;
    case "strong":
      return <strong key={key}>{drawAll(node.children, growing)}</strong>;
    case "del":
      return <del key={key}>{drawAll(node.children, growing)}</del>;
    case "quote":
      return <blockquote key={key} dir="auto">{drawAll(node.children, growing)}</blockquote>;
    case "bullets":
      return <ul key={key}>{drawAll(node.children, growing)}</ul>;
    case "item":
      return <li key={key}>{drawAll(node.children, growing)}</li>;
    case "head":
      return <thead key={key}>{drawAll(node.children, growing)}</thead>;
    case "body":
      return <tbody key={key}>{drawAll(node.children, growing)}</tbody>;
    case "row":
      return <tr key={key}>{drawAll(node.children, growing)}</tr>;
  }
}

/** A link to the web. An address of another kind is shown, and cannot be followed. */
export function Link({ href, label, children }: { href: string; label?: string; children?: ComponentChildren }) {
  const safe = safeHref(href);
  const shown = label === undefined ? children : visible(label);
  if (safe === undefined) {
    return (
      <span class="nolink" title={visible(href)}>
        {shown}
      </span>
    );
  }
  return (
    <a href={safe} target="_blank" rel="noopener noreferrer nofollow" title={visible(href)}>
      {shown}
    </a>
  );
}

type Highlight = typeof import("../core/highlight.ts").highlight;
let loaded: Highlight | undefined;
let loading: Promise<void> | undefined;

const LONGEST_COLOURED = 30_000;

/** The coloured runs of a code, once the colours are loaded. */
export function useHighlight(code: string, language: string, growing = false): CodeRun[] | undefined {
  const [, redraw] = useState(0);
  const wanted = language !== "" && !growing && code.length <= LONGEST_COLOURED;
  useEffect(() => {
    if (!wanted || loaded !== undefined) return;
    let here = true;
    loading ??= import("../core/highlight.ts").then((module) => void (loaded = module.highlight));
    loading.then(() => here && redraw(1)).catch(() => (loading = undefined));
    return () => void (here = false);
  }, [wanted]);
  const ready = wanted ? loaded : undefined;
  return useMemo(() => ready?.(code, language), [ready, code, language]);
}

export function CodeBlock({ code, language, growing = false }: { code: string; language: string; growing?: boolean }) {
  const runs = useHighlight(code, language, growing);
  return (
    <div class="code" dir="ltr">
      <pre tabIndex={0} role="group" aria-label={language === "" ? "Code" : `Code: ${language}`}>
        <code>{runs === undefined ? code : <Runs runs={runs} />}</code>
      </pre>
      <CopyButton label="Copy code" text={() => code} />
    </div>
  );
}

export function Runs({ runs }: { runs: CodeRun[] }) {
  return (
    <>
      {runs.map((run, index) =>
        typeof run === "string" ? (
          run
        ) : (
          <span key={index} class={run.classes}>
            <Runs runs={run.children} />
          </span>
        ),
      )}
    </>
  );
}
