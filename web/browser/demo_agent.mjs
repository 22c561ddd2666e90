// An agent for the pictures of the documentation: it speaks version 2 of the protocol on stdin and stdout, and answers the prompts that
// `demo_plays.mjs` knows. `session/load` is not offered: the server keeps what was said.

import { createInterface } from "node:readline";
import { OPTIONS, PLAYS } from "./demo_plays.mjs";

const chosen = new Map();
const answers = new Map();
const folders = new Map();
let next = 1;

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (sessionId, what) => send({ method: "session/update", params: { sessionId, update: what } });
const options = () => OPTIONS.map((option) => ({ ...option, currentValue: chosen.get(option.configId) ?? option.currentValue }));

function ask(method, params) {
  const id = `ask-${next++}`;
  send({ id, method, params });
  return new Promise((resolve) => answers.set(id, resolve));
}

/** Plays the steps of a prompt. A step is an update, or a function that is given what it needs to do more. */
async function play(session, prompt) {
  const words = prompt.map((block) => block.text ?? "").join("");
  const steps = PLAYS[words] ?? [{ sessionUpdate: "agent_message_chunk", messageId: `m${next++}`, content: { type: "text", text: "Done." } }];
  for (const step of steps) {
    if (typeof step === "function") await step({ session, cwd: folders.get(session), update: (what, of = session) => update(of, what), ask });
    else update(session, step);
  }
  update(session, { sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
}

const METHODS = {
  initialize: () => ({
    protocolVersion: 2,
    info: { name: "demo", title: "Demo agent", version: "1" },
    capabilities: { session: { prompt: { image: {} } } },
    authMethods: [],
  }),
  "session/new": ({ cwd }) => {
    const sessionId = `demo-${process.pid}-${next++}`;
    folders.set(sessionId, cwd);
    return { sessionId, configOptions: options() };
  },
  "session/set_config_option": ({ configId, value }) => (chosen.set(configId, value), { configOptions: options() }),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) return answers.get(id)?.(result);
  if (id === undefined) return;
  if (method === "session/prompt") {
    const messageId = `u${next++}`;
    send({ id, result: { messageId } });
    update(params.sessionId, { sessionUpdate: "user_message", messageId, content: params.prompt });
    update(params.sessionId, { sessionUpdate: "state_update", state: "running" });
    return void play(params.sessionId, params.prompt);
  }
  const known = METHODS[method];
  if (known === undefined) send({ id, error: { code: -32601, message: `no method ${method}` } });
  else send({ id, result: known(params) });
});
