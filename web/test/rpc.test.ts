// The connection: answers, requests of the server, and what a break does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { backoff, ConnectionLost, Peer, RpcError, type IncomingRequest, type Socket } from "../src/core/rpc.ts";

function connected() {
  const sent: any[] = [];
  const events: string[] = [];
  const requests: IncomingRequest[] = [];
  const socket: Socket = {
    send: (data) => void sent.push(JSON.parse(data)),
    close: () => {},
    onopen: null,
    onmessage: null,
    onclose: null,
  };
  const peer = new Peer(socket, {
    notified: (method) => events.push(`notified ${method}`),
    asked: (request) => void requests.push(request),
    withdrawn: (id) => events.push(`withdrawn ${id}`),
    closed: (code) => events.push(`closed ${code}`),
  });
  const receive = (...messages: unknown[]) =>
    socket.onmessage?.({ data: messages.map((message) => (typeof message === "string" ? message : JSON.stringify(message))).join("\n") });
  return { peer, sent, events, requests, receive, end: () => socket.onclose?.({ code: 1006, reason: "" }) };
}

test("answers reach their requests, in any order", async () => {
  const { peer, sent, receive } = connected();
  const [one, two] = [peer.request("a", {}), peer.request("b", { x: 1 })];
  receive({ jsonrpc: "2.0", id: sent[1].id, result: 2 }, { jsonrpc: "2.0", id: sent[0].id, error: { code: -32002, message: "no", data: { hint: "look" } } });
  assert.equal(await two, 2);
  await assert.rejects(one, (error: RpcError) => error.code === -32002 && error.hint === "look");
});

test("what is no message is skipped", async () => {
  const { peer, sent, receive } = connected();
  const one = peer.request("a", {});
  receive("garbage {", "[1]", "7", { jsonrpc: "2.0", id: 999, result: 0 }, { jsonrpc: "2.0", id: sent[0].id, result: "yes" });
  assert.equal(await one, "yes");
});

test("a break fails what waits, and sends nothing again", async () => {
  const { peer, sent, events, end } = connected();
  const one = peer.request("session/prompt", {});
  end();
  await assert.rejects(one, ConnectionLost);
  await assert.rejects(peer.request("a", {}), ConnectionLost);
  peer.notify("b", {});
  assert.equal(sent.length, 1);
  assert.deepEqual(events, ["closed 1006"]);
});

test("a request of the server is answered once, and never after the end", () => {
  const { sent, events, requests, receive, end } = connected();
  receive({ jsonrpc: "2.0", id: "q1", method: "session/request_permission", params: { sessionId: "s" } });
  requests[0]?.answer({ outcome: 1 });
  requests[0]?.answer({ outcome: 2 });
  receive({ jsonrpc: "2.0", method: "$/cancel_request", params: { requestId: "q1" } }, { jsonrpc: "2.0", id: 2, method: "x" });
  end();
  requests[1]?.refuse(-32601, "late");
  assert.deepEqual(sent, [{ jsonrpc: "2.0", id: "q1", result: { outcome: 1 } }]);
  assert.deepEqual(events, ["withdrawn q1", "closed 1006"]);
});

test("attempts get rarer, up to a limit", () => {
  assert.equal(backoff(0, () => 1), 400);
  assert.ok(backoff(3, () => 0) > backoff(1, () => 0));
  assert.equal(backoff(60, () => 1), 15_000);
});
