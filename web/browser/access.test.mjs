// axe-core finds nothing on any page, in light and dark, on a desktop and a phone; and the page works without motion and in a
// language that is written from right to left.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { sessionPlace, visit } from "./page.mjs";
import { network } from "./fronts.mjs";
import { launch, Stage } from "./stage.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let stage, between, browser, token, observer, shared, client, session;

before(async () => {
  stage = await new Stage().serve();
  browser = await launch();
  token = stage.token();
  client = await stage.client();
  session = await client.session();
  await client.prompt(session, "think hm\nsay # Title\nsay text with `code` and [a link](https://a.example)\ntool call_1; plan a,b; term; unknown thing; compact; usage 10/100; title A session for axe");
  await client.prompt(session, `raw ${JSON.stringify({ sessionUpdate: "agent_message_chunk", messageId: "md", content: { type: "text", text: "## H\n\n- a\n- b\n\n```rust\nfn main() { let x = \"s\"; } // c\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q" } })}`);
  between = await network(new URL(stage.url));
  observer = stage.token("observer");
  shared = stage.run("share", session, "--expires", "1h");
});

after(async () => {
  await browser?.close();
  await stage?.end();
});

async function violations(page) {
  // The policy of the page forbids scripts of others: the debugger brings this one.
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
}

const PHONE = { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true };
const READY = (page) => page.locator(".markdown table").waitFor();
const menu = (name) => async (page) => {
  await READY(page);
  await page.getByRole("button", { name: "Actions for this session" }).click();
  if (name === undefined) return;
  await page.getByRole("menuitem", { name }).click();
  await page.getByRole("dialog").waitFor();
};
/** The states of the page, and how to come to them. */
const STATES = {
  list: ["#/", (page) => page.getByRole("link", { name: /A session for axe/ }).waitFor()],
  "an empty list": ["#/", async (page) => {
    await page.getByRole("button", { name: "Archived" }).click();
    await page.getByText("No such sessions.").waitFor();
  }],
  search: ["#/", async (page) => {
    await page.getByRole("searchbox").fill("link");
    await page.locator("mark").first().waitFor();
  }],
  "a search without hits": ["#/", async (page) => {
    await page.getByRole("searchbox").fill("zzyzx");
    await page.getByText("No message has these words.").waitFor();
  }],
  "a new session": ["#/", async (page) => {
    await page.getByRole("button", { name: "New" }).click();
    await page.getByRole("dialog").waitFor();
  }],
  help: ["#/", async (page) => {
    await page.getByRole("link", { name: /A session for axe/ }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
  }],
  usage: ["#/usage", (page) => page.getByRole("heading", { name: "By model" }).waitFor()],
  session: ["session", async (page) => {
    await READY(page);
    await page.locator(".item-agent .hl-keyword").first().waitFor();
    for (const head of await page.locator(".tool-head[aria-expanded=false], .thought-head, .marker-button").all()) await head.click();
    for (const summary of await page.locator("summary").all()) await summary.click();
  }],
  menu: ["session", menu()],
  rename: ["session", menu("Rename…")],
  delete: ["session", menu("Delete…")],
  "commands and the outline": ["session", async (page) => {
    await READY(page);
    const button = page.getByRole("button", { name: "Outline of turns" });
    if (await button.isVisible()) await button.click();
    else await page.getByLabel("Prompt", { exact: true }).fill("/");
  }],
  "no such session": ["#/session/none", (page) => page.getByText("There is no such session here").waitFor()],
  "a lost connection": ["session", async (page) => {
    await READY(page);
    between.cut();
    await page.getByText("Trying again…").waitFor();
  }],
  "another version": ["session", async (page) => {
    await READY(page);
    // As if this page were of another build than the one that the server has.
    await page.route(({ pathname }) => pathname === "/", (route) => route.fulfill({ body: '<script src="/app-OTHER.js"></script>' }));
    between.cut();
    between.mend();
    await page.getByText("of another version").waitFor();
  }],
};

for (const [name, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["phone", { colorScheme: "light", ...PHONE }],
  ["dark phone", { colorScheme: "dark", ...PHONE }],
]) {
  test(`nothing is in the way of anybody: ${name}`, async () => {
    const found = {};
    const look = async (what, there, ready) => {
      await ready(there.page);
      await there.page.waitForTimeout(200);
      const all = await violations(there.page);
      const wide = await there.page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
      if (wide > 0) all.push(`too wide by ${wide}`);
      if (all.length > 0) found[what] = all;
      await there.close();
    };
    for (const [what, [place, ready]] of Object.entries(STATES)) {
      between.mend();
      await look(what, await visit(browser, between, { token, place: place === "session" ? sessionPlace(session) : place, ...options }), ready);
    }
    const asked = await client.session();
    await client.begin(asked, "plan a,b; permit");
    const question = (page) => page.getByRole("region", { name: "Question of the agent" }).waitFor();
    await look("question", await visit(browser, stage, { token, place: sessionPlace(asked), ...options }), question);
    await look("question for an observer", await visit(browser, stage, { token: observer, place: sessionPlace(asked), ...options }), question);
    client.send({ method: "session/cancel", params: { sessionId: asked } });
    await look("shared view", await visit(browser, stage, { address: shared.replace(/^http:\/\/[^/]*/, stage.url), ...options }), READY);
    await look("signed out", await visit(browser, stage, { ...options }), (page) => page.getByLabel("Or enter a token").waitFor());
    assert.deepEqual(found, {});
  });
}

test("text from right to left, and no motion for those who want none", async () => {
  const other = await client.session();
  await client.prompt(other, "say مرحبا بالعالم\ntitle שלום עולם");
  const there = await visit(browser, stage, { token, place: sessionPlace(other), reducedMotion: "reduce" });
  const said = there.page.locator("article.item-agent p").last();
  await said.waitFor();
  assert.equal(await said.evaluate((element) => getComputedStyle(element).direction), "rtl");
  const moving = await there.page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0);
  await there.close();
});
