// Servers in front of the real one, for the browser: with other files of the page, or with a slow network between.

import { existsSync, readFileSync } from "node:fs";
import { createServer as createHttpServer, request } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

/** Serves the page from a folder, with the headers of the real server, and hands everything else to it. Gives the address. */
export async function pageFront(stage, folder) {
  const { headers } = await fetch(`http://127.0.0.1:${stage.port}`);
  const kept = Object.fromEntries([...headers].filter(([name]) => !/^(content-(length|encoding|type)|etag|cache-control|date)$/.test(name)));
  const front = createHttpServer((asked, answer) => {
    const path = asked.url.split("?")[0];
    const file = join(folder, path === "/" ? "index.html" : path);
    if (existsSync(file)) {
      answer.writeHead(200, { ...kept, "content-type": TYPES[file.split(".").pop()] });
      return answer.end(readFileSync(file));
    }
    const passed = request({ port: stage.port, host: "127.0.0.1", path: asked.url, method: asked.method, headers: asked.headers }, (got) => {
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    asked.pipe(passed);
  });
  front.on("upgrade", (asked, socket, head) => {
    const behind = connect(stage.port, "127.0.0.1", () => {
      behind.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${asked.rawHeaders.map((word, at) => (at % 2 === 0 ? `${word}: ` : `${word}\r\n`)).join("")}\r\n`);
      behind.write(head);
      socket.pipe(behind).pipe(socket);
    });
    endTogether(socket, behind);
  });
  return listening(front);
}

/** A network: hands all bytes on after a delay, each way, and can be cut and mended. */
export async function network(stage, delay = 0) {
  const open = new Set();
  let isCut = false;
  const front = createServer((socket) => {
    if (isCut) return socket.destroy();
    const behind = connect(stage.port, "127.0.0.1");
    later(socket, behind, delay);
    later(behind, socket, delay);
    endTogether(socket, behind, 2 * delay);
    open.add(socket);
    socket.on("close", () => open.delete(socket));
  });
  return {
    url: await listening(front),
    cut: () => {
      isCut = true;
      open.forEach((socket) => socket.destroy());
    },
    mend: () => (isCut = false),
  };
}

function later(from, to, delay) {
  from.on("data", (bytes) => setTimeout(() => to.writable && to.write(bytes), delay));
  from.on("end", () => setTimeout(() => to.end(), delay));
}

/** What has arrived is still handed on when one side has ended; a side that broke breaks the other. */
function endTogether(socket, behind, delay = 0) {
  for (const [one, other] of [[socket, behind], [behind, socket]]) one.on("error", () => other.destroy()).on("close", () => setTimeout(() => other.end(), delay));
}

async function listening(front) {
  await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));
  front.unref();
  return `http://127.0.0.1:${front.address().port}`;
}
