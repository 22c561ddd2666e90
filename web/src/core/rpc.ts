// JSON-RPC over one WebSocket, and connecting again after it broke. Knows nothing of sessions. A request is sent on one
// connection only: if that breaks, the request fails and is never sent again by this module.

import { fields, isObject, number, text, type Json, type JsonObject } from "./json.ts";

/** What this module needs of a WebSocket. */
export interface Socket {
  send(data: string): void;
  close(code?: number): void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
}

/** An error that the server answered with. */
export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: Json,
  ) {
    super(message);
  }

  /** The advice that comes with the error. */
  get hint(): string | undefined {
    return text(fields(this.data)["hint"]);
  }
}

/** The connection broke before the answer came: whether the server has acted is not known. */
export class ConnectionLost extends Error {
  constructor() {
    super("the connection was lost before the server answered");
  }
}

export interface IncomingRequest {
  readonly id: string | number;
  readonly method: string;
  readonly params: JsonObject;
  answer(result: Json): void;
  refuse(code: number, message: string): void;
}

export interface PeerEvents {
  notified(method: string, params: JsonObject): void;
  asked(request: IncomingRequest): void;
  /** The server no longer needs the answer to a request that it sent. */
  withdrawn(id: string | number): void;
  closed(code: number, reason: string): void;
}

interface Waiting {
  resolve(value: Json): void;
  reject(error: Error): void;
}

/** One connection, from its opening to its end. */
export class Peer {
  #next = 1;
  #waiting = new Map<number, Waiting>();
  #open = new Set<string | number>();
  #closed = false;

  constructor(
    private readonly socket: Socket,
    private readonly events: PeerEvents,
  ) {
    socket.onmessage = (event) => this.#received(event.data);
    socket.onclose = (event) => this.#ended(event.code, event.reason);
  }

  get closed(): boolean {
    return this.#closed;
  }

  request(method: string, params: JsonObject): Promise<Json> {
    if (this.#closed) return Promise.reject(new ConnectionLost());
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  notify(method: string, params: JsonObject): void {
    if (!this.#closed) this.socket.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  close(): void {
    this.socket.close(1000);
    this.#ended(1000, "");
  }

  #received(data: unknown): void {
    if (typeof data !== "string") return;
    for (const line of data.split("\n")) {
      let message: unknown;
      try {
        message = JSON.parse(line);
      } catch {
        continue;
      }
      if (isObject(message)) this.#take(message);
    }
  }

  #take(message: JsonObject): void {
    const method = text(message["method"]);
    const id = message["id"];
    if (method === undefined) {
      this.#answered(message);
    } else if (typeof id === "string" || typeof id === "number") {
      this.#asked(id, method, fields(message["params"]));
    } else if (method === "$/cancel_request") {
      const of = fields(message["params"])["requestId"];
      if (typeof of === "string" || typeof of === "number") this.events.withdrawn(of);
    } else {
      this.events.notified(method, fields(message["params"]));
    }
  }

  #answered(message: JsonObject): void {
    const id = number(message["id"]);
    const waiting = id === undefined ? undefined : this.#waiting.get(id);
    if (id === undefined || waiting === undefined) return;
    this.#waiting.delete(id);
    if (message["error"] === undefined) return waiting.resolve(message["result"] ?? null);
    const error = fields(message["error"]);
    waiting.reject(new RpcError(number(error["code"]) ?? 0, text(error["message"]) ?? "unknown error", error["data"]));
  }

  #asked(id: string | number, method: string, params: JsonObject): void {
    this.#open.add(id);
    const send = (body: JsonObject) => {
      // Each request is answered once, and not on another connection.
      if (!this.#open.delete(id) || this.#closed) return;
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, ...body }));
    };
    this.events.asked({
      id,
      method,
      params,
      answer: (result) => send({ result }),
      refuse: (code, message) => send({ error: { code, message } }),
    });
  }

  #ended(code: number, reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    waiting.forEach((one) => one.reject(new ConnectionLost()));
    this.events.closed(code, reason);
  }
}

/** How long to wait before the attempt with this number: longer each time, and not the same for all pages. */
export function backoff(attempt: number, random: () => number): number {
  const longest = Math.min(15_000, 400 * 2 ** Math.min(attempt, 10));
  return Math.round(longest * (0.5 + random() / 2));
}
