// A shared view: one session, to look at, until it expires or is revoked.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { visit } from "./page.mjs";
import { launch, Stage } from "./stage.mjs";

let stage, browser, client, session;

before(async () => {
  stage = await new Stage().serve();
  browser = await launch();
  client = await stage.client();
  session = await client.session();
  await client.prompt(session, "say for everybody\nsay key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijk-abcdefghAA");
});

after(async () => {
  await browser?.close();
  await stage?.end();
});

function share(...words) {
  const said = stage.run("share", session, ...words);
  return said.replace(/^http:\/\/[^/]*/, stage.url);
}

test("a link shows one session live, without a list or a box", async () => {
  const address = share("--expires", "1h");
  const there = await visit(browser, stage, { address });
  const { page } = there;
  await page.getByText("for everybody").last().waitFor();
  assert.ok(!page.url().includes("share="), "the secret is not left in the address");
  assert.equal(await page.getByLabel("Prompt", { exact: true }).count(), 0);
  assert.equal(await page.getByRole("searchbox").count(), 0);
  assert.equal(await page.getByRole("link", { name: "Back to the list" }).count(), 0);
  assert.equal((await page.content()).includes("sk-ant-api03"), false, "keys are removed");
  await client.prompt(session, "say live too");
  await page.locator("article.item-agent", { hasText: "live too" }).waitFor();
  await client.prompt(session, "say again sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijk-abcdefghAA");
  await page.locator("article.item-agent", { hasText: "again" }).waitFor();
  assert.equal((await page.content()).includes("sk-ant-api03"), false, "keys are removed live, too");
  const other = await client.session();
  await client.prompt(other, "say secret");
  await page.goto(`${stage.url}/#/session/${other}`);
  await page.getByText("There is no such session here").waitFor();
  await page.goto(`${stage.url}/#/usage`);
  await page.getByText("for everybody").last().waitFor();
  await there.clean();
  await there.close();
});

test("a revoked link says so, also to a page that is open", async () => {
  const address = share("--expires", "1h");
  const there = await visit(browser, stage, { address });
  await there.page.getByText("for everybody").last().waitFor();
  const { shares } = JSON.parse(stage.run("share", "list", "--json"));
  stage.run("share", "revoke", shares.at(-1).id);
  await there.page.getByText("does not work any more").waitFor({ timeout: 40_000 });
  const late = await visit(browser, stage, { address });
  await late.page.getByText("does not work any more").waitFor();
  await Promise.all([there.close(), late.close()]);
});

test("an expired link says so", async () => {
  const address = share("--expires", "1h");
  // The shortest time is minutes, and a server that knows a token does not believe another time of it.
  await stage.stop();
  const file = join(stage.home, "tokens.json");
  const tokens = JSON.parse(readFileSync(file, "utf8"));
  tokens.at(-1).expires = Date.now() + 10_000;
  writeFileSync(file, JSON.stringify(tokens));
  await stage.serve(stage.port);
  const open = await visit(browser, stage, { address });
  await open.page.getByText("for everybody").last().waitFor();
  await open.page.getByText("does not work any more").waitFor({ timeout: 40_000 });
  const late = await visit(browser, stage, { address });
  await late.page.getByText("does not work any more").waitFor();
  await Promise.all([open.close(), late.close()]);
});
