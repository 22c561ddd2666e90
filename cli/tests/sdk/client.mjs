// A whole conversation by a client of the official TypeScript SDK: new, prompt with a tool call and a permission, cancel, load and
// resume. Ends with an error if something is not as it should be.
//   node client.mjs FOLDER_WITH_NODE_MODULES VERSION http|ws URL TOKEN DIRECTORY
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, version, transport, url, token, cwd] = process.argv.slice(2);
const { resolve } = createRequire(join(modules, "package.json"));
const load = (name) => import(pathToFileURL(resolve(name)).href);
setTimeout(() => {
    console.error("the conversation takes too long");
    process.exit(3);
}, 150_000).unref();

const sdk = await load(version === "1" ? "@agentclientprotocol/sdk" : "@agentclientprotocol/sdk/experimental/v2");
const headers = { authorization: `Bearer ${token}` };

async function stream() {
    if (transport === "http") {
        const { createHttpStream } = await load("@agentclientprotocol/sdk/experimental/http-client");
        return createHttpStream(`${url}/acp`, { headers });
    }
    const { createWebSocketStream } = await load("@agentclientprotocol/sdk/experimental/ws-client");
    const { WebSocket } = (await load("ws")).default;
    return createWebSocketStream(`${url.replace("http", "ws")}/acp`, { headers, WebSocket });
}

/** What a client has seen: texts, states, and how many tool calls and permissions. */
class Seen {
    texts = [];
    states = [];
    tools = 0;
    permissions = 0;
    waiting = [];

    take({ sessionUpdate: kind, content, state }) {
        if (kind === "agent_message_chunk" && content.type === "text") this.texts.push(content.text);
        if (kind === "agent_message") this.texts.push(...content.map((block) => block.text));
        if (kind === "tool_call" || kind === "tool_call_update") this.tools += 1;
        if (kind === "state_update") this.states.push(state);
        this.waiting = this.waiting.filter(({ done, ready }) => !done() || ready());
    }

    until(done) {
        return done() ? undefined : new Promise((ready) => this.waiting.push({ done, ready }));
    }

    has(text) {
        return this.until(() => this.texts.includes(text));
    }
}

async function connected(conversation) {
    const seen = new Seen();
    const app = sdk
        .client({ name: "sdk-client" })
        .onNotification("session/update", ({ params }) => seen.take(params.update))
        .onRequest("session/request_permission", ({ params }) => {
            seen.permissions += 1;
            return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
        });
    return app.connectWith(await stream(), async (agent) => {
        const answer = await agent.request("initialize", {
            protocolVersion: Number(version),
            ...(version === "1" ? { clientCapabilities: {} } : { info: { name: "sdk-client", version: "1" }, capabilities: {} }),
        });
        assert.equal(answer.protocolVersion, Number(version));
        return conversation(agent, seen);
    });
}

const text = (words) => [{ type: "text", text: words }];

async function version1(agent, seen) {
    const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
    const prompt = (words) => agent.request("session/prompt", { sessionId, prompt: text(words) });
    assert.equal((await prompt("say one; tool call_1; permit")).stopReason, "end_turn");
    const hanging = prompt("say two; hang");
    await seen.has("two");
    await agent.notify("session/cancel", { sessionId });
    assert.equal((await hanging).stopReason, "cancelled");
    return { sessionId, live: seen.texts, permissions: seen.permissions, tools: seen.tools };
}

async function version2(agent, seen) {
    const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
    await agent.request("session/prompt", { sessionId, prompt: text("say one; tool call_1; permit; say two; hang") });
    await seen.has("two");
    const idle = seen.states.filter((state) => state === "idle").length;
    await agent.notify("session/cancel", { sessionId });
    await seen.until(() => seen.states.filter((state) => state === "idle").length > idle);
    return { sessionId, live: seen.texts, permissions: seen.permissions, tools: seen.tools };
}

const first = await connected(version === "1" ? version1 : version2);
assert.equal(first.live[0], "one");
assert.ok(first.live.some((words) => words.startsWith("permission: selected")), first.live.join("|"));
assert.equal(first.permissions, 1);
assert.ok(first.tools >= 2, `${first.tools} messages of tool calls`);

// A client that comes later sees the same, and goes on.
await connected(async (agent, seen) => {
    const { sessionId, live } = first;
    if (version === "1") {
        await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
    } else {
        await agent.request("session/resume", { sessionId, cwd, mcpServers: [], replayFrom: { type: "start" } });
    }
    await seen.has("two");
    assert.equal(seen.texts.join(""), live.join(""));
    assert.equal(seen.permissions, 0, "an answered question is not asked again");
});
await connected(async (agent, seen) => {
    const { sessionId } = first;
    await agent.request("session/resume", { sessionId, cwd, mcpServers: [] });
    await agent.request("session/prompt", { sessionId, prompt: text("say three") });
    await seen.has("three");
    assert.ok(!seen.texts.includes("one"), "resuming replays nothing");
});
console.log(`version ${version} by ${transport}: ok`);
process.exit(0);
