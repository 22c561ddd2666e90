// axe-core finds nothing on any page, in light and dark, on a desktop and a phone; and the page works without motion and in a
// language that is written from right to left.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage } from "./stage.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let stage, browser, token, client, session;

before(async () => {
  stage = await new Stage().serve();
  browser = await launch();
  token = stage.token();
  client = await stage.client();
  session = await client.session();
  await client.prompt(session, "think hm\nsay # Title\nsay text with `code` and [a link](https://a.example)\ntool call_1; plan a,b; term; unknown thing; compact; usage 10/100; title A session for axe");
  await client.prompt(session, `raw ${JSON.stringify({ sessionUpdate: "agent_message_chunk", messageId: "md", content: { type: "text", text: "## H\n\n- a\n- b\n\n```rust\nfn main() { let x = \"s\"; } // c\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q" } })}`);
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

for (const [name, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["phone", { colorScheme: "light", viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true }],
]) {
  test(`nothing is in the way of anybody: ${name}`, async () => {
    const found = {};
    const look = async (what, place, ready) => {
      const there = await visit(browser, stage, { token, place, ...options });
      await ready(there.page);
      await there.page.waitForTimeout(200);
      found[what] = await violations(there.page);
      const wide = await there.page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${what} is too wide by ${wide}`);
      await there.close();
    };
    await look("list", "#/", (page) => page.getByRole("link", { name: /A session for axe/ }).waitFor());
    await look("search", "#/", async (page) => {
      await page.getByRole("searchbox").fill("link");
      await page.locator("mark").first().waitFor();
    });
    await look("usage", "#/usage", (page) => page.getByRole("heading", { name: "By model" }).waitFor());
    await look("session", sessionPlace(session), async (page) => {
      await page.locator(".markdown table").waitFor();
      await page.locator(".item-agent .hl-keyword").first().waitFor();
      for (const head of await page.locator(".tool-head[aria-expanded=false]").all()) await head.click();
    });
    await look("menu and commands", sessionPlace(session), async (page) => {
      await page.locator(".markdown table").waitFor();
      await page.getByRole("button", { name: "Actions for this session" }).click();
    });
    await look("help", "#/", async (page) => {
      await page.getByRole("link", { name: /A session for axe/ }).waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
    });
    const asked = await client.session();
    await client.begin(asked, "permit");
    await look("question", sessionPlace(asked), (page) => page.getByRole("region", { name: "Question of the agent" }).waitFor());
    client.send({ method: "session/cancel", params: { sessionId: asked } });
    const out = await visit(browser, stage, { ...options });
    await out.page.getByLabel("Or enter a token").waitFor();
    found["signed out"] = await violations(out.page);
    await out.close();
    assert.deepEqual(Object.entries(found).filter(([, all]) => all.length > 0), []);
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
