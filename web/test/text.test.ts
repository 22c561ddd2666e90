// Text of agents: Markdown, terminal output, patches, control characters. All of it may be hostile.

import assert from "node:assert/strict";
import { test } from "node:test";
import { terminalLines } from "../src/core/ansi.ts";
import { placeHref, readPlace, readSecret } from "../src/core/address.ts";
import { readPatch } from "../src/core/diff.ts";
import { clock, pathInside } from "../src/core/format.ts";
import { highlight } from "../src/core/highlight.ts";
import { parseMarkdown, safeHref, type MarkdownBlock, type MarkdownNode } from "../src/core/markdown.ts";
import { standingAfter, UNKNOWN } from "../src/core/standing.ts";
import { firstLine, visible, visibleLines } from "../src/core/visible.ts";

const nodes = (text: string) => parseMarkdown(text).flatMap((block) => block.nodes);
function flat(all: MarkdownNode[]): MarkdownNode[] {
  return all.flatMap((node) => [node, ...("children" in node ? flat(node.children) : [])]);
}

test("Markdown becomes known nodes", () => {
  const kinds = flat(nodes("# T\n\na **b** `c` [d](https://e.f)\n\n- x\n- y\n\n```rust\nfn\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n> q\n\n1. z\n\n---")).map((node) => node.type);
  for (const kind of ["heading", "paragraph", "strong", "code", "link", "bullets", "item", "fence", "table", "cell", "quote", "ordered", "rule"]) {
    assert.ok(kinds.includes(kind as never), kind);
  }
});

test("tags are text, and addresses that are no links are not followed", () => {
  const all = flat(nodes('<script>x()</script><img src=x onerror=y> [a](javascript:alert(1)) ![i](https://e.f/t.png) [r](../x.rs)'));
  assert.ok(all.some((node) => node.type === "text" && node.text.includes("<script>")));
  assert.ok(all.every((node) => node.type !== "link" || safeHref(node.href) === undefined));
  for (const bad of ["javascript:alert(1)", "JaVaScRiPt:x", "\u0001javascript:x", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:x", "//evil.example", "x.rs", "java\nscript:x"]) {
    assert.equal(safeHref(bad), undefined, bad);
  }
  assert.equal(safeHref("https://a.b/c?d"), "https://a.b/c?d");
});

test("a text that grows gives the same blocks as one that is parsed at once", () => {
  const text = "# A\n\none *two*\nthree\n\n- a\n- b\n\n  c\n\n```js\nlet a;\n\nlet b;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend\n\n> q\n\n    code\n\nlast";
  let blocks: MarkdownBlock[] = [];
  for (let end = 1; end <= text.length; end++) blocks = parseMarkdown(text.slice(0, end), blocks);
  assert.deepEqual(blocks, parseMarkdown(text));
  assert.equal(blocks.map((block) => block.source).join(""), text);
});

test("what is built to take long does not", () => {
  const hostile = [
    ">".repeat(50_000), "[".repeat(50_000), "*".repeat(20_000), "`".repeat(20_001), "- ".repeat(10_000), "![".repeat(20_000),
    "a**b".repeat(5_000), "|".repeat(20_000), "<".repeat(50_000), "x".repeat(1_000_000), ("> ".repeat(500) + "x\n").repeat(50),
    Array.from({ length: 2_000 }, (_, at) => `${" ".repeat(at % 200)}- x`).join("\n"), "https://a.b/".repeat(2_000), "&amp".repeat(5_000),
  ];
  for (const text of hostile) {
    const begin = performance.now();
    parseMarkdown(text);
    const took = performance.now() - begin;
    assert.ok(took < 2_000, `${text.slice(0, 10)} took ${took} ms`);
  }
});

test("control characters are shown", () => {
  assert.equal(visible("a\u001b[31m\u202eb\n"), "a\\u{1b}[31m\\u{202e}b\\u{a}");
  assert.equal(visibleLines("a\r\nb\tc\u0007"), "a\nb\tc\\u{7}");
  assert.equal(visible("שלום 👩\u200d🚀"), "שלום 👩\u200d🚀");
  assert.equal(firstLine("  one\ntwo"), "one");
});

test("terminal output has colours, and no sequence is left", () => {
  const run = (text: string) => terminalLines(text, 100).lines.map((runs) => runs.map((one) => (one.classes ? `<${one.classes}>` : "") + one.text).join(""));
  assert.deepEqual(run("\u001b[1;31mred\u001b[0m plain\n\u001b[38;5;196mx\u001b[48;2;0;0;255my"), ["<fg1 bold>red plain", "<fg9>x<fg9 bg12>y"]);
  assert.deepEqual(run("10%\r50%\rdone"), ["done"]);
  assert.deepEqual(run("ab\bc\u001b[Kd"), ["acd"]);
  assert.deepEqual(run("\u001b]8;;http://evil\u0007link\u001b]8;;\u0007\u001b]0;title\u001b\\\u001b[2J\u001b[10;10Hx\u001bP1$r\u001b\\\u0000\u0007"), ["linkx"]);
  assert.deepEqual(run("\u001b[38;5m\u001b[999;;;m\u001b["), [""]);
  assert.equal(terminalLines("x\n".repeat(1_000), 10).skipped, 990);
  assert.ok((run("y".repeat(1_000_000))[0]?.length ?? 0) < 5_000);
});

test("patches become rows with numbers", () => {
  const [one, two] = readPatch("diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,3 @@ fn\n a\n-b\n+c\n+--- d\ndiff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n");
  assert.deepEqual(one?.rows.map((row) => `${row.kind} ${row.before ?? ""},${row.after ?? ""} ${row.text}`), ["hunk , fn", "context 1,1 a", "removed 2, b", "added ,2 c", "added ,3 --- d"]);
  assert.deepEqual([one?.added, one?.removed, one?.path], [2, 1, "x.rs"]);
  assert.deepEqual([two?.operation, two?.path, two?.rows.length], ["add", "n", 2]);
  assert.deepEqual(readPatch("no patch at all"), []);
});

test("code has colours without HTML", () => {
  const runs = highlight("let x = \"<b>\"; // c", "javascript");
  assert.ok(JSON.stringify(runs).includes("hl-keyword") && JSON.stringify(runs).includes("<b>"));
  assert.equal(highlight("x", "no-such-language"), undefined);
});

test("addresses are read and written", () => {
  for (const place of [{ page: "list" }, { page: "project", cwd: "/a b/ü#?" }, { page: "session", session: "s/1" }, { page: "session", session: "s", message: "m 1" }, { page: "usage" }] as const) {
    assert.deepEqual(readPlace(placeHref(place)), place);
  }
  assert.deepEqual(readPlace("#/nonsense/%E0%A4%A"), { page: "list" });
  assert.deepEqual(readSecret("#code=abc"), { secret: { kind: "code", code: "abc" }, rest: "" });
  assert.deepEqual(readSecret("#share=t"), { secret: { kind: "token", token: "t" }, rest: "" });
  assert.deepEqual(readSecret("#/session/x"), { rest: "/session/x" });
});

test("the standing follows updates and survives wrong ones", () => {
  const after = (update: object) => standingAfter(UNKNOWN, update as never);
  assert.equal(after({ sessionUpdate: "state_update", state: "requires_action" }).state, "waiting");
  assert.equal(after({ sessionUpdate: "state_update", state: "dreaming" }).state, "unknown");
  assert.deepEqual(after({ sessionUpdate: "config_option_update", configOptions: [null, 3, { configId: "m", currentValue: "a", options: [{ name: "G", options: [{ value: "a" }] }] }] }).options[0]?.choices[0]?.group, "G");
  assert.equal(after({ sessionUpdate: "usage_update", used: "x" }).usage, undefined);
});

test("times have their date if it is another day, and paths are those inside the project", () => {
  const now = Date.parse("2026-03-05T12:00:00");
  assert.doesNotMatch(clock("2026-03-05T09:30:00", now), /Mar/);
  assert.match(clock("2026-03-04T09:30:00", now), /Mar/);
  assert.match(clock("2025-03-05T09:30:00", now), /2025/);
  assert.equal(clock("never", now), "");
  assert.equal(pathInside("/work/a/src/x.rs", "/work/a"), "src/x.rs");
  assert.equal(pathInside("/work/ab/x.rs", "/work/a"), "/work/ab/x.rs");
  assert.equal(pathInside("/x.rs", "/"), "/x.rs");
  assert.equal(pathInside("/x.rs", undefined), "/x.rs");
});
