// Signing in, finding and reading sessions.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage } from "./stage.mjs";

let stage, browser, token, session, client;

before(async () => {
  stage = await new Stage().serve();
  browser = await launch();
  token = stage.token();
  client = await stage.client();
  session = await client.session();
  await client.prompt(session, "think weighing it; say # Result\nsay Done with **care** and `code`");
  await client.prompt(session, "tool call_a; plan one,two,three; usage 50/100; term; unknown future_thing; subagent; title Lighthouse keeper");
  const other = await client.session(join(stage.folder, "work/atlas"));
  await client.prompt(other, "say the walrus was here");
});

after(async () => {
  await browser?.close();
  await stage?.end();
});

test("a code opens the page once", async () => {
  const address = stage.address();
  const one = await visit(browser, stage, { address });
  await one.page.getByRole("heading", { name: "Sessions" }).waitFor();
  assert.ok(!one.page.url().includes("code"), "the code is not left in the address");
  await one.page.reload();
  await one.page.getByRole("heading", { name: "Sessions" }).waitFor();
  await one.clean();
  const again = await visit(browser, stage, { address });
  await again.page.getByText("rethread web").first().waitFor();
  await again.clean();
  await Promise.all([one.close(), again.close()]);
});

test("without a token the page says what to do, and a wrong one is refused", async () => {
  const opened = await visit(browser, stage);
  await opened.page.getByText("rethread web").first().waitFor();
  await opened.page.getByLabel("Or enter a token").fill("rethread_wrong");
  await opened.page.getByRole("button", { name: "Open" }).click();
  await opened.page.getByText("does not work any more").waitFor();
  await opened.page.getByLabel("Or enter a token").fill(token);
  await opened.page.getByRole("button", { name: "Open" }).click();
  await opened.page.getByRole("heading", { name: "Sessions" }).waitFor();
  await opened.clean();
  await opened.close();
});

test("storage that is blocked does not matter in this tab", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.addInitScript(() => {
    for (const name of ["sessionStorage", "localStorage"]) Object.defineProperty(globalThis, name, { get: () => { throw new Error("blocked"); } });
  });
  await page.goto(stage.address());
  await page.getByRole("link", { name: /Lighthouse keeper/ }).click();
  await page.locator("article.item-agent", { hasText: "Done with" }).waitFor();
  await context.close();
});

test("the list is by project, and filtered as one types", async () => {
  const opened = await visit(browser, stage, { token });
  const { page } = opened;
  await page.getByRole("region", { name: "lighthouse" }).getByRole("link", { name: /Lighthouse keeper/ }).waitFor();
  await page.getByRole("region", { name: "atlas" }).getByRole("listitem").waitFor();
  await page.getByRole("button", { name: "Running" }).click();
  await page.getByText("No such sessions.").waitFor();
  await page.getByRole("button", { name: "All" }).click();
  await page.keyboard.press("/");
  await page.keyboard.type("keeper");
  await page.getByRole("region", { name: "Sessions" }).getByRole("link", { name: /Lighthouse keeper/ }).waitFor();
  await page.getByRole("link", { name: "atlas" }).waitFor({ state: "detached" });
  await opened.clean();
  await opened.close();
});

test("a search finds messages and leads to them", async () => {
  const opened = await visit(browser, stage, { token });
  const { page } = opened;
  await page.getByRole("searchbox").fill("walrus");
  const hit = page.locator(".hit", { has: page.locator("mark", { hasText: "walrus" }) }).last();
  await hit.click();
  await page.waitForURL(/session\/[^/]+\/.+/);
  await page.locator("article", { hasText: "the walrus was here" }).last().waitFor();
  await opened.clean();
  await opened.close();
});

test("a session is shown with all that happened in it", async () => {
  const opened = await visit(browser, stage, { token, place: sessionPlace(session) });
  const { page } = opened;
  await page.locator(".item-agent strong", { hasText: "care" }).waitFor();
  await page.getByRole("button", { name: /Thought/ }).click();
  await page.locator(".thought", { hasText: "weighing it" }).waitFor();
  const tool = page.locator(".tool", { hasText: "Edit a file" }).first();
  await tool.locator(".diff-added", { hasText: "two" }).waitFor();
  await tool.locator(".diff-removed", { hasText: "one" }).waitFor();
  assert.match(await tool.locator(".tool-head").innerText(), /Done/);
  await page.locator(".plan", { hasText: "1 of 3 done" }).waitFor();
  await page.locator("summary", { hasText: "future_thing" }).waitFor();
  await page.locator("article.nested", { hasText: "the child speaks" }).waitFor();
  await page.locator(".session-facts", { hasText: "50% of context" }).waitFor();
  await page.locator(".session-facts", { hasText: "scripted" }).waitFor();
  assert.equal(await page.title(), "Lighthouse keeper · Rethread");
  const terminal = page.locator(".terminal");
  if ((await terminal.count()) === 0) await page.locator(".tool-head").last().click();
  await terminal.first().waitFor();
  await opened.clean();
  await opened.close();
});

test("reading claims nothing", async () => {
  const opened = await visit(browser, stage, { token, place: sessionPlace(session) });
  await opened.page.locator("article.item-agent", { hasText: "Done with" }).waitFor();
  await opened.close();
  await client.prompt(session, "say still mine");
});

test("the outline, links to messages, copies and exports", async () => {
  const opened = await visit(browser, stage, { token, place: sessionPlace(session) });
  const { page } = opened;
  const first = page.locator("article.item-user").first();
  await page.getByRole("navigation", { name: "Outline of turns" }).getByRole("link").first().click();
  await page.waitForFunction(() => document.activeElement?.classList.contains("item-user"));
  await first.getByRole("button", { name: "Copy link to this message" }).click();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /#\/session\/[^/]+\/.+/);
  await page.goto("about:blank");
  await page.goto(link);
  await page.waitForFunction(() => document.activeElement?.classList.contains("item-user"));
  await page.locator("article.item-agent").first().hover();
  await page.locator("article.item-agent").first().getByRole("button", { name: "Copy as Markdown" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /Result/);
  for (const [name, content] of [["Export as Markdown", "Lighthouse keeper"], ["Export as web page", "<html"], ["Export as JSON lines", "{\""]]) {
    await page.getByRole("button", { name: "Actions for this session" }).click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name }).click()]);
    assert.ok(readFileSync(await file.path(), "utf8").includes(content), name);
  }
  await opened.clean();
  await opened.close();
});

test("the keyboard is enough", async () => {
  const opened = await visit(browser, stage, { token });
  const { page } = opened;
  await page.getByRole("link", { name: /Lighthouse keeper/ }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.waitForURL(/session/);
  await page.locator("article").first().waitFor();
  await page.keyboard.press("j");
  await page.waitForFunction(() => document.activeElement?.matches("article"));
  await page.keyboard.press("c");
  await page.waitForFunction(() => document.activeElement?.id === "prompt");
  await page.keyboard.press("Escape");
  await page.keyboard.press("u");
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  await opened.clean();
  await opened.close();
});

test("usage is shown in figures", async () => {
  const opened = await visit(browser, stage, { token, place: "#/usage" });
  await opened.page.getByRole("heading", { name: "By agent" }).waitFor();
  await opened.page.getByRole("cell", { name: "4" }).first().waitFor();
  await opened.clean();
  await opened.close();
});

test("a session that is not there, and an address that is none", async () => {
  const opened = await visit(browser, stage, { token, place: "#/session/none" });
  await opened.page.getByText("There is no such session here").waitFor();
  await opened.page.goto(`${stage.url}/#/%E0%A4%A/x`);
  await opened.page.getByRole("heading", { name: "Sessions" }).waitFor();
  await opened.clean();
  await opened.close();
});
