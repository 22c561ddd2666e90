// The address of the page. Everything is in the fragment, which browsers do not send: the place in the page, and once, at the
// beginning, the secret that the page is opened with.

export type Place =
  | { page: "list" }
  | { page: "project"; cwd: string }
  | { page: "session"; session: string; message?: string }
  | { page: "usage" };

/** What a page is opened with: a code that is exchanged for a token, or the token of a shared view. */
export type Secret = { kind: "code"; code: string } | { kind: "token"; token: string };

export function readSecret(fragment: string): { secret?: Secret; rest: string } {
  const body = fragment.replace(/^#/, "");
  if (body.startsWith("/") || body === "") return { rest: body };
  const values = new URLSearchParams(body);
  const code = values.get("code");
  const token = values.get("share") ?? values.get("token");
  const rest = values.get("at") ?? "";
  if (code) return { secret: { kind: "code", code }, rest };
  if (token) return { secret: { kind: "token", token }, rest };
  return { rest: "" };
}

export function readPlace(fragment: string): Place {
  const parts = fragment.replace(/^#?\//, "").split("/").map(decode);
  const [page, first, second] = parts;
  if (page === "session" && first) {
    return second ? { page: "session", session: first, message: second } : { page: "session", session: first };
  }
  if (page === "project" && first) return { page: "project", cwd: first };
  if (page === "usage") return { page: "usage" };
  return { page: "list" };
}

export function placeHref(place: Place): string {
  switch (place.page) {
    case "list":
      return "#/";
    case "project":
      return `#/project/${encodeURIComponent(place.cwd)}`;
    case "usage":
      return "#/usage";
    case "session": {
      const session = `#/session/${encodeURIComponent(place.session)}`;
      return place.message === undefined ? session : `${session}/${encodeURIComponent(place.message)}`;
    }
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
