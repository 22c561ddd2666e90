// What goes wrong between the page and its server: it is said, with what to do, and what was written is kept.

import assert from "node:assert/strict";
import { cpSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { network, pageFront } from "./fronts.mjs";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage, until } from "./stage.mjs";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
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

const box = (page) => page.getByLabel("Prompt", { exact: true });
const answer = (page, text) => page.locator("article.item-agent", { hasText: text });

async function session(on = client, script = "say ready") {
  const made = await on.session();
  await on.prompt(made, script);
  return made;
}

test("a code that is wrong, used or too old: said, with what to do", async () => {
  const address = stage.address();
  const used = await visit(browser, stage, { address });
  await used.page.getByRole("heading", { name: "Sessions" }).waitFor();
  for (const wrong of [address, address.replace(/code=[^&]*/, "code=none")]) {
    const there = await visit(browser, stage, { address: wrong });
    const said = await there.page.getByRole("alert").innerText();
    assert.match(said, /wrong, was used, or is older than two minutes/);
    assert.match(said, /rethread web/);
    await there.clean();
    await there.close();
  }
  await used.close();
});

test("a revoked token: said, and after another sign-in the draft is there", async () => {
  const own = stage.run("token", "new", "to be revoked", "--role", "full");
  const place = await session();
  const there = await visit(browser, stage, { token: own, place: sessionPlace(place) });
  const { page } = there;
  await answer(page, "ready").waitFor();
  await box(page).fill("say what I was about to send");
  const { tokens } = JSON.parse(stage.run("token", "list", "--json"));
  stage.run("token", "revoke", tokens.find(({ name }) => name === "to be revoked").id);
  await page.getByText("does not work any more").waitFor({ timeout: 40_000 });
  await page.getByLabel("Or enter a token").fill(token);
  await page.getByRole("button", { name: "Open" }).click();
  await answer(page, "ready").waitFor();
  assert.equal(await box(page).inputValue(), "say what I was about to send");
  await there.clean();
  await there.close();
});

test("the server is gone: said, nothing can be sent, and the draft is kept", async () => {
  const own = await new Stage().serve();
  try {
    const place = await session(await own.client());
    const there = await visit(browser, own, { token: own.token(), place: sessionPlace(place) });
    const { page } = there;
    await answer(page, "ready").waitFor();
    await own.stop();
    await page.getByText("The server does not answer. Trying again…").waitFor();
    await box(page).fill("say later");
    await page.keyboard.press("Enter");
    assert.equal(await box(page).inputValue(), "say later", "it is not sent into nothing");
    await own.serve(own.port);
    await page.getByText("Trying again…").waitFor({ state: "detached", timeout: 40_000 });
    await box(page).press("Enter");
    await answer(page, "later").waitFor();
    await there.clean();
    await there.close();
  } finally {
    await own.end();
  }
});

/** A copy of the page as another build has it: its script has another name. */
function otherBuild(folder) {
  cpSync(dist, folder, { recursive: true });
  const start = readFileSync(join(folder, "index.html"), "utf8");
  const script = /app-\w+\.js/.exec(start)[0];
  renameSync(join(folder, script), join(folder, "app-OTHER.js"));
  return start.replace(script, "app-OTHER.js");
}

test("a server with another build of the page: said, and the draft is there after a reload", async () => {
  const own = await new Stage().serve();
  try {
    const folder = join(own.folder, "page");
    const start = otherBuild(folder);
    const script = readFileSync(join(dist, "index.html"), "utf8");
    writeFileSync(join(folder, "index.html"), script);
    cpSync(join(folder, "app-OTHER.js"), join(folder, /app-\w+\.js/.exec(script)[0]));
    const place = await session(await own.client());
    own.url = await pageFront(own, folder);
    const there = await visit(browser, own, { token: own.token(), place: sessionPlace(place) });
    const { page } = there;
    await answer(page, "ready").waitFor();
    await box(page).fill("say kept");
    assert.equal(await page.getByText("of another version").count(), 0);
    const { url } = own;
    await own.stop();
    writeFileSync(join(folder, "index.html"), start);
    await own.serve(own.port);
    own.url = url;
    await page.getByText("The server is now of another version").waitFor({ timeout: 40_000 });
    assert.equal(await box(page).inputValue(), "say kept");
    await page.getByRole("button", { name: "Reload the page" }).click();
    await page.waitForFunction(() => document.querySelector("script[src]").src.endsWith("app-OTHER.js"));
    await answer(page, "ready").waitFor();
    assert.equal(await box(page).inputValue(), "say kept");
    assert.equal(await page.getByText("of another version").count(), 0);
    await page.getByRole("button", { name: "Send" }).click();
    await answer(page, "kept").waitFor();
    await there.clean();
    await there.close();
  } finally {
    await own.end();
  }
});

test("a server that does not offer what the page needs: said, with what to do; the draft is kept", async () => {
  const place = await session();
  const there = await visit(browser, stage, { token, place: sessionPlace(place) });
  const { page } = there;
  await answer(page, "ready").waitFor();
  await box(page).fill("say kept");
  // The next connections are with an older server, which knows nothing of reading.
  let older = true;
  await page.routeWebSocket(/\/acp/, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((message) => socket.send(older ? String(message).replace('"read":{', '"reading":{') : message));
  });
  await page.reload();
  await page.getByText("The server is of another version than this page. Trying again…").waitFor();
  await page.getByText("update Rethread").waitFor();
  older = false;
  await page.getByRole("button", { name: "Reload the page" }).click();
  await answer(page, "ready").waitFor();
  assert.equal(await box(page).inputValue(), "say kept");
  await there.clean();
  await there.close();
});

test("a slow network: nothing is sent twice", async () => {
  const place = await session();
  const there = await visit(browser, await network(stage, 700), { token, place: sessionPlace(place) });
  const { page } = there;
  await answer(page, "ready").waitFor({ timeout: 60_000 });
  await box(page).fill("say only once");
  // An impatient user.
  for (let press = 0; press < 4; press++) await box(page).press("Enter");
  await page.getByRole("button", { name: "Send" }).click({ force: true, timeout: 1_000 }).catch(() => {});
  await page.locator(".item-sent").waitFor();
  await answer(page, "only once").waitFor();
  await page.locator(".item-sent").waitFor({ state: "detached" });
  await box(page).fill("permit");
  await box(page).press("Enter");
  const question = page.getByRole("region", { name: "Question of the agent" });
  await question.waitFor();
  await page.evaluate(() => {
    const yes = [...document.querySelectorAll(".choice")].find((button) => button.textContent === "Yes");
    for (let press = 0; press < 3; press++) yes.click();
  });
  await answer(page, "yes").waitFor();
  const { items } = await client.request("_rethread/read", { sessionId: place });
  const prompts = items.filter(({ update }) => update?.sessionUpdate === "user_message").map(({ update }) => update.content[0].text);
  assert.deepEqual(prompts, ["say ready", "say only once", "permit"]);
  await page.getByText("Idle").waitFor();
  assert.equal(await page.locator("article.item-agent").count(), 3);
  assert.equal(await page.locator(".notice-error, .notice-warning").count(), 0);
  await there.close();
});

test("a slow network that breaks while a prompt is on its way: sent once, or back in the box", async () => {
  const place = await session();
  const there = await visit(browser, await network(stage, 400), { token, place: sessionPlace(place) });
  const { page } = there;
  await answer(page, "ready").waitFor({ timeout: 60_000 });
  await page.evaluate(() => {
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (data) {
      // The prompt goes into a connection that is broken already, and never arrives.
      if (!String(data).includes("session/prompt")) return send.call(this, data);
      WebSocket.prototype.send = send;
      this.close();
    };
  });
  await box(page).fill("say not lost");
  await box(page).press("Enter");
  await page.getByText("It is in the box again").waitFor({ timeout: 40_000 });
  assert.equal(await box(page).inputValue(), "say not lost");
  await box(page).press("Enter");
  await answer(page, "not lost").waitFor();
  const { items } = await client.request("_rethread/read", { sessionId: place });
  assert.equal(items.filter(({ update }) => update?.sessionUpdate === "user_message" && JSON.stringify(update).includes("not lost")).length, 1);
  await until("it is not on its way any more", async () => (await page.locator(".item-sent").count()) === 0);
  await there.close();
});
