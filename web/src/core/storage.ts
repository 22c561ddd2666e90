// Storage of the browser, which may be blocked, full or absent: then values live as long as the page.

const memory = new Map<string, string>();

function area(kind: "session" | "local"): Storage | undefined {
  try {
    return kind === "session" ? globalThis.sessionStorage : globalThis.localStorage;
  } catch {
    return undefined;
  }
}

export function load(kind: "session" | "local", name: string): string | undefined {
  try {
    const stored = area(kind)?.getItem(`rethread.${name}`);
    if (stored !== null && stored !== undefined) return stored;
  } catch {
    // Blocked: the value of this page is used.
  }
  return memory.get(name);
}

export function save(kind: "session" | "local", name: string, value: string | undefined): void {
  if (value === undefined) memory.delete(name);
  else memory.set(name, value);
  try {
    if (value === undefined) area(kind)?.removeItem(`rethread.${name}`);
    else area(kind)?.setItem(`rethread.${name}`, value);
  } catch {
    // Blocked or full: it works for this page.
  }
}
