// Makes text of agents and users safe to show: characters that control a terminal, or change the order or the lines of other
// characters, become escapes. The rules are those of `lib/src/visible.rs`.

const HOSTILE = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufff9-\ufffb]/;
const HOSTILE_ALL = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufff9-\ufffb]/g;
const HOSTILE_IN_LINES = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufff9-\ufffb]/;
const HOSTILE_IN_LINES_ALL =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufff9-\ufffb]/g;

function escape(character: string): string {
  return `\\u{${character.charCodeAt(0).toString(16)}}`;
}

/** Escapes all control characters: for titles, paths and labels, which stay on one line. */
export function visible(text: string): string {
  return HOSTILE.test(text) ? text.replace(HOSTILE_ALL, escape) : text;
}

/** Escapes control characters except line ends and tabs. The carriage return of a line end is dropped. */
export function visibleLines(text: string): string {
  if (!HOSTILE_IN_LINES.test(text)) return text;
  return text.replace(/\r\n/g, "\n").replace(HOSTILE_IN_LINES_ALL, escape);
}

/** The first line of a text, cut to a length, as one visible line. */
export function firstLine(text: string, longest = 120): string {
  const line = text.slice(0, longest * 4).trimStart().split("\n", 1)[0] ?? "";
  return visible(line.length > longest ? `${line.slice(0, longest).trimEnd()}…` : line);
}
