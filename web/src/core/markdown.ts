// Markdown as a tree of known nodes. The page makes elements of the nodes and never parses HTML: tags in a message are text, links
// and images are checked here, and nesting is bounded. A text that grows is parsed again only from its last blocks on.

import MarkdownIt, { type Token } from "markdown-it";
import { visible, visibleLines } from "./visible.ts";

export type MarkdownNode =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "fence"; language: string; text: string }
  | { type: "break" }
  | { type: "rule" }
  | { type: "heading"; level: number; children: MarkdownNode[] }
  | { type: "link"; href: string; children: MarkdownNode[] }
  | { type: "image"; source: string; text: string }
  | { type: "cell"; head: boolean; align: string | undefined; children: MarkdownNode[] }
  | { type: "ordered"; start: number; children: MarkdownNode[] }
  | { type: Container; children: MarkdownNode[] };

type Container = "paragraph" | "tight" | "em" | "strong" | "del" | "quote" | "bullets" | "item" | "table" | "head" | "body" | "row";

/** A block at the top level, with the part of the text that it was made of. */
export interface MarkdownBlock {
  start: number;
  source: string;
  nodes: MarkdownNode[];
}

const parser = new MarkdownIt({ html: false, linkify: true, maxNesting: 24 });
// Schemes are checked below; what is no link for the page is still shown.
parser.validateLink = () => true;
parser.normalizeLink = (url) => url;
parser.normalizeLinkText = (text) => text;
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

/** A block without a blank line that is longer than this is shown as it is: Markdown of such a size is none. */
const LONGEST_BLOCK = 24_000;

/** Parses a text, with the result of parsing what it began with. */
export function parseMarkdown(text: string, before: readonly MarkdownBlock[] = []): MarkdownBlock[] {
  const kept = before.slice(0, -2);
  const last = before.at(-3);
  const from = last === undefined ? 0 : last.start + last.source.length;
  const isLonger = kept.length > 0 && kept.every((block) => text.startsWith(block.source, block.start));
  if (!isLonger) return parsed(text, 0);
  return [...kept, ...parsed(text.slice(from), from)];
}

function parsed(text: string, offset: number): MarkdownBlock[] {
  if (text === "") return [];
  if (longestRun(text) > LONGEST_BLOCK) return [plainBlock(text, offset)];
  try {
    return blocks(text, offset);
  } catch {
    return [plainBlock(text, offset)];
  }
}

/** The length of the longest line: inline parsing of one is the only thing that could take long. */
function longestRun(text: string): number {
  let longest = 0;
  let start = 0;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
    longest = Math.max(longest, end - start);
    start = end + 1;
  }
  return Math.max(longest, text.length - start);
}

function plainBlock(text: string, offset: number): MarkdownBlock {
  return { start: offset, source: text, nodes: [{ type: "fence", language: "", text: visibleLines(text) }] };
}

function blocks(text: string, offset: number): MarkdownBlock[] {
  const starts = lineStarts(text);
  const found: { line: number; tokens: Token[] }[] = [];
  for (const token of parser.parse(text, {})) {
    if (token.level === 0 && token.nesting >= 0) found.push({ line: token.map?.[0] ?? 0, tokens: [] });
    found.at(-1)?.tokens.push(token);
  }
  return found.map(({ line, tokens }, index) => {
    const start = index === 0 ? 0 : (starts[line] ?? text.length);
    const next = found[index + 1];
    const end = next === undefined ? text.length : (starts[next.line] ?? text.length);
    return { start: offset + start, source: text.slice(start, end), nodes: tree(tokens) };
  });
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

const CONTAINERS: Record<string, Container> = {
  em_open: "em",
  strong_open: "strong",
  s_open: "del",
  blockquote_open: "quote",
  bullet_list_open: "bullets",
  list_item_open: "item",
  table_open: "table",
  thead_open: "head",
  tbody_open: "body",
  tr_open: "row",
};

function tree(tokens: readonly Token[]): MarkdownNode[] {
  const root: MarkdownNode[] = [];
  const open: MarkdownNode[][] = [root];
  for (const token of tokens) {
    const here = open.at(-1) ?? root;
    if (token.nesting < 0) {
      if (open.length > 1) open.pop();
    } else if (token.nesting > 0) {
      const children: MarkdownNode[] = [];
      here.push(container(token, children));
      open.push(children);
    } else {
      here.push(...leaf(token));
    }
  }
  return root;
}

function container(token: Token, children: MarkdownNode[]): MarkdownNode {
  switch (token.type) {
    case "paragraph_open":
      return { type: token.hidden ? "tight" : "paragraph", children };
    case "heading_open":
      return { type: "heading", level: Number(token.tag.slice(1)) || 6, children };
    case "ordered_list_open":
      return { type: "ordered", start: Number(token.attrGet("start") ?? 1), children };
    case "th_open":
    case "td_open": {
      const align = /text-align:(left|right|center)/.exec(attribute(token, "style"))?.[1];
      return { type: "cell", head: token.type === "th_open", align, children };
    }
    case "link_open":
      return { type: "link", href: attribute(token, "href"), children };
    default:
      return { type: CONTAINERS[token.type] ?? "tight", children };
  }
}

function attribute(token: Token, name: string): string {
  return String(token.attrGet(name) ?? "");
}

function leaf(token: Token): MarkdownNode[] {
  switch (token.type) {
    case "inline":
      return tree(token.children ?? []);
    case "text":
      return token.content === "" ? [] : [{ type: "text", text: visibleLines(token.content) }];
    case "code_inline":
      return [{ type: "code", text: visible(token.content) }];
    case "softbreak":
      return [{ type: "text", text: "\n" }];
    case "hardbreak":
      return [{ type: "break" }];
    case "hr":
      return [{ type: "rule" }];
    case "fence":
    case "code_block":
      return [{ type: "fence", language: language(token.info), text: visibleLines(token.content.replace(/\n$/, "")) }];
    case "image":
      return [{ type: "image", source: attribute(token, "src"), text: visible(token.content) }];
    default:
      return token.content === "" ? [] : [{ type: "text", text: visibleLines(token.content) }];
  }
}

function language(info: string): string {
  return /^[\w+#.-]{1,30}/.exec(info.trim())?.[0]?.toLowerCase() ?? "";
}

/** The address of a link that may be followed from the page: only the web and mail, never a script or a file. */
export function safeHref(href: string): string | undefined {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return undefined;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
}
