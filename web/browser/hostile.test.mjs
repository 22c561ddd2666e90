// Hostile text in every place where an agent can put some: it runs nothing, loads nothing, breaks nothing, and the content policy is
// never even asked.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage } from "./stage.mjs";

let stage, browser, token, client;

before(async () => {
  stage = await new Stage().serve();
  browser = await launch();
  token = stage.token();
  client = await stage.client();
});

after(async () => {
  await browser?.close();
  await stage?.end();
});

const RUN = "globalThis.__ran=(globalThis.__ran||0)+1";
const MARKDOWN = [
  `<script>${RUN}</script>`,
  `<img src=x onerror="${RUN}">`,
  `<svg onload="${RUN}"><script>${RUN}</script></svg>`,
  `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`,
  `<a href="javascript:${RUN}">html link</a>`,
  `[click](javascript:${RUN}) [click](JAVASCRIPT:${RUN}) [click](java\tscript:${RUN}) [click](&#106;avascript:${RUN})`,
  `[click](data:text/html;base64,PHNjcmlwdD4=) [click](vbscript:x) [click](file:///etc/passwd) [click](blob:x)`,
  `<javascript:${RUN}> <https://ok.example>`,
  `![remote](https://tracker.example/pixel.png) ![inline](data:image/svg+xml,<svg onload=${RUN}>)`,
  `[ref]: javascript:${RUN} "x"\n\n[ref]`,
  `<style>*{display:none!important}</style><link rel=stylesheet href=https://evil.example/x.css><base href=https://evil.example/>`,
  `<form action=https://evil.example><input name=a><button>go</button></form>`,
  `<meta http-equiv=refresh content="0;url=https://evil.example">`,
  `\`\`\`html\n<script>${RUN}</script>\n\`\`\``,
  `\`\`\`"><script>${RUN}</script>\nx\n\`\`\``,
  `| <script>${RUN}</script> | a |\n|---|---|\n| <img src=x onerror=${RUN}> | b |`,
  `# <img src=x onerror=${RUN}>`,
  `\u202egnp.exe \u2066hidden\u2069 \u0000 \u001b[31m \u2028 \ufff9a\ufffab\ufffb`,
  `__proto__ constructor toString {{7*7}} \${7*7} <%= 7 %>`,
  `${"> ".repeat(400)}deep`,
  `${"- ".repeat(300)}deep`,
  `${"[".repeat(3000)}`,
  `${"**a".repeat(3000)}`,
  `<${"b>".repeat(2000)}`,
];

const say = (text) => `raw ${JSON.stringify({ sessionUpdate: "agent_message_chunk", messageId: `m${Math.random()}`, content: { type: "text", text } })}`;
const raw = (update) => `raw ${JSON.stringify(update)}`;

async function nothingRan(there) {
  const { page } = there;
  assert.equal(await page.evaluate(() => globalThis.__ran), undefined, "something ran");
  const found = await page.evaluate(() => ({
    scripts: document.querySelectorAll("#page script, #page iframe, #page object, #page embed, #page link, #page style, #page base, #page meta").length,
    handlers: [...document.querySelectorAll("#page *")].filter((element) => [...element.attributes].some((one) => one.name.startsWith("on"))).length,
    links: [...document.querySelectorAll("#page a[href]")].filter((link) => !/^(#|https?:|mailto:)/.test(link.getAttribute("href"))).map((link) => link.getAttribute("href")),
    unsafe: [...document.querySelectorAll('#page a[href^="http"]')].filter((link) => !link.rel.includes("noopener")).length,
    images: [...document.querySelectorAll("#page img")].map((image) => image.src).filter((source) => !/^data:image\/(png|jpeg|gif|webp);base64,/.test(source)),
    hidden: document.body.innerText.match(/[\u202a-\u202e\u2066-\u2069\u0000\u001b\ufff9]/)?.[0],
  }));
  assert.deepEqual(found, { scripts: 0, handlers: 0, links: [], unsafe: 0, images: [], hidden: undefined });
  await there.clean();
}

test("hostile Markdown in messages and thoughts", async () => {
  const session = await client.session();
  await client.prompt(session, MARKDOWN.map(say).join("\n"));
  await client.prompt(session, MARKDOWN.map((text) => raw({ sessionUpdate: "agent_thought_chunk", messageId: `t${Math.random()}`, content: { type: "text", text } })).join("\n") + "\nsay the end");
  const there = await visit(browser, stage, { token, place: sessionPlace(session) });
  await there.page.locator("article.item-agent", { hasText: "the end" }).waitFor();
  for (const thought of await there.page.getByRole("button", { name: /^Thought/ }).all()) await thought.click();
  for (const link of await there.page.locator(".nolink").all()) await link.click({ timeout: 1000 }).catch(() => {});
  await there.page.evaluate(() => document.querySelectorAll(".item").forEach((item) => (item.style.contentVisibility = "visible")));
  assert.ok((await there.page.locator(".nolink").count()) > 3);
  await nothingRan(there);
  await there.close();
});

test("hostile titles, tool calls, diffs, files, plans, commands, options and unknown things", async () => {
  const evil = `"><img src=x onerror="${RUN}">\u202e`;
  const session = await client.session();
  const lines = [
    raw({ sessionUpdate: "tool_call_update", toolCallId: `c"><script>`, title: evil, kind: evil, status: evil, locations: [{ path: `/${evil}`, line: 1 }], rawInput: { command: evil, [evil]: evil }, rawOutput: evil, content: [
      { type: "content", content: { type: "text", text: evil } },
      { type: "diff", changes: [{ operation: "modify", path: `/${evil}` }], patch: { format: "git_patch", text: `diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@ ${evil}\n-${evil}\n+<script>${RUN}</script>\n` } },
      { type: "content", content: { type: "image", mimeType: "image/svg+xml", data: Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" onload="${RUN}"/>`).toString("base64") } },
      { type: "content", content: { type: "image", mimeType: `image/png;${evil}`, data: evil } },
      { type: "content", content: { type: "resource_link", uri: `javascript:${RUN}`, name: evil } },
      { type: "content", content: { type: "resource", resource: { uri: `javascript:${RUN}`, text: evil } } },
      { type: evil, [evil]: evil },
    ] }),
    raw({ sessionUpdate: "plan_update", plan: { type: "items", planId: evil, entries: [{ content: evil, status: evil, priority: "high" }, { content: "b", status: "in_progress", priority: "low" }] } }),
    raw({ sessionUpdate: "available_commands_update", availableCommands: [{ name: evil, description: evil }] }),
    raw({ sessionUpdate: evil, [evil]: { __proto__: null, constructor: evil } }),
    raw({ sessionUpdate: "agent_message_chunk", messageId: "__proto__", content: { type: evil, text: evil } }),
    `title ${evil}`,
    "say the end",
  ];
  await client.prompt(session, lines.join("\n"));
  const list = await visit(browser, stage, { token });
  await list.page.getByRole("link", { name: /onerror/ }).first().waitFor();
  await nothingRan(list);
  const there = await visit(browser, stage, { token, place: sessionPlace(session) });
  await there.page.locator("article.item-agent", { hasText: "the end" }).waitFor();
  for (const head of await there.page.locator(".tool-head").all()) if ((await head.getAttribute("aria-expanded")) === "false") await head.click();
  for (const summary of await there.page.locator("summary").all()) await summary.click();
  await there.page.getByLabel("Prompt", { exact: true }).fill("/");
  await nothingRan(there);
  await Promise.all([list.close(), there.close()]);
});

test("hostile terminal output", async () => {
  const output = [
    `<script>${RUN}</script>`, "\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "\x1b]0;taken over\x07", "\x1b[2J\x1b[H\x1b[10000;10000Hx", "\x1b[38;2;999;999;999mcolour", "\x1b[" + "9;".repeat(5000) + "m",
    "\x1bP" + "q".repeat(1000) + "\x1b\\", "\x1b_G" + "a".repeat(100), "a\b\b\b\b\bb", "\x9b31mred", "\u202etxt", "y".repeat(200_000), "\x1b[100000C.", "\x00\x07\x7f",
  ].join("\n");
  const session = await client.session();
  await client.prompt(session, [
    raw({ sessionUpdate: "terminal_update", terminalId: "evil", command: `rm "><img src=x onerror=${RUN}>`, output: { data: Buffer.from(output).toString("base64") }, exitStatus: { exitCode: 0, signal: `"><script>` } }),
    raw({ sessionUpdate: "tool_call_update", toolCallId: "t1", title: "sh", kind: "execute", status: "completed", content: [{ type: "terminal", terminalId: "evil" }, { type: "terminal", terminalId: "none" }] }),
    "say the end",
  ].join("\n"));
  const there = await visit(browser, stage, { token, place: sessionPlace(session) });
  await there.page.locator("article.item-agent", { hasText: "the end" }).waitFor();
  await there.page.locator(".tool-head").first().click();
  await there.page.locator(".terminal", { hasText: "colour" }).waitFor();
  assert.equal(await there.page.title().then((title) => title.includes("taken over")), false);
  await nothingRan(there);
  await there.close();
});

test("a hostile question hides nothing", async () => {
  const session = await client.session();
  const there = await visit(browser, stage, { token, place: sessionPlace(session) });
  await client.begin(session, "permit");
  await there.page.getByRole("region", { name: "Question of the agent" }).waitFor();
  await nothingRan(there);
  client.send({ method: "session/cancel", params: { sessionId: session } });
  await there.close();
});

test("very large things: the page stays responsive", async () => {
  const session = await client.session();
  const chunk = raw({ sessionUpdate: "agent_message_chunk", messageId: "big", content: { type: "text", text: "word ".repeat(20_000) } });
  await client.prompt(session, [...Array.from({ length: 50 }, () => chunk), raw({ sessionUpdate: "agent_message_chunk", messageId: "line", content: { type: "text", text: "x".repeat(1_000_000) } }), ...Array.from({ length: 10_000 }, (_, at) => raw({ sessionUpdate: "tool_call_update", toolCallId: `c${at}`, title: `Call ${at}`, kind: "read", status: "completed" })), "say the end"].join("\n"));
  const there = await visit(browser, stage, { token, place: sessionPlace(session) });
  const { page } = there;
  await page.locator("article.item-agent", { hasText: "the end" }).waitFor();
  const slowest = () => page.evaluate(() => new Promise((resolve) => {
    let [last, most, left] = [performance.now(), 0, 60];
    const frame = (now) => { most = Math.max(most, now - last); last = now; left-- > 0 ? requestAnimationFrame(frame) : resolve(most); };
    requestAnimationFrame(frame);
  }));
  // Up through the tool calls, and from there to the beginning of the turn by the outline.
  await page.evaluate(() => {
    const box = document.querySelector("[data-timeline]");
    globalThis.__scroll = setInterval(() => (box.scrollTop -= 2_000), 30);
  });
  assert.ok((await slowest()) < 1_000, "a frame took longer than a second");
  await page.locator("article.item-tool").nth(150).waitFor({ state: "attached" });
  await page.evaluate(() => clearInterval(globalThis.__scroll));
  await page.getByRole("navigation", { name: "Outline of turns" }).getByRole("link").first().click();
  for (const large of [page.locator("article.item-user"), page.locator("article.item-agent").nth(0), page.locator("article.item-agent").nth(1)]) {
    await large.evaluate((item) => item.scrollIntoView());
    await large.getByRole("button", { name: /^Show all \(/ }).waitFor();
    assert.ok((await slowest()) < 1_000, "a frame took longer than a second");
  }
  assert.ok((await page.locator("article").count()) <= 900, "the number of items is bounded");
  await there.clean();
  await there.close();
});
