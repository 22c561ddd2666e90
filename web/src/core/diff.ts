// A patch in the form of git as files with rows to show. Pure; a line that it does not understand is shown as it is.

export interface DiffRow {
  kind: "context" | "added" | "removed" | "hunk";
  before: number | undefined;
  after: number | undefined;
  text: string;
}

export interface DiffFile {
  path: string;
  /** The path before a move. */
  from: string | undefined;
  operation: "add" | "delete" | "modify" | "move";
  rows: DiffRow[];
  added: number;
  removed: number;
}

export function readPatch(patch: string): DiffFile[] {
  const files: DiffFile[] = [];
  let file: DiffFile | undefined;
  let hunk: { before: number; after: number; oldLeft: number; newLeft: number } | undefined;
  const open = () => {
    file = { path: "", from: undefined, operation: "modify", rows: [], added: 0, removed: 0 };
    files.push(file);
    hunk = undefined;
    return file;
  };
  for (const line of patch.replace(/\n$/, "").split("\n")) {
    if (hunk && file && (hunk.oldLeft > 0 || hunk.newLeft > 0) && row(file, hunk, line)) continue;
    if (line.startsWith("diff --git ")) {
      const here = open();
      const paths = /^diff --git "?a\/(.*?)"? "?b\/(.*?)"?$/.exec(line);
      here.path = paths?.[2] ?? "";
    } else if (line.startsWith("--- ")) {
      const here: DiffFile = !file || file.rows.length > 0 ? open() : file;
      const path = named(line.slice(4));
      if (path === undefined) here.operation = "add";
      else if (here.path === "") here.path = path;
      hunk = undefined;
    } else if (line.startsWith("+++ ") && file) {
      const path = named(line.slice(4));
      if (path === undefined) file.operation = "delete";
      else file.path = path;
    } else if (line.startsWith("rename from ") && file) {
      file.from = line.slice("rename from ".length);
      file.operation = "move";
    } else if (line.startsWith("new file mode") && file) {
      file.operation = "add";
    } else if (line.startsWith("deleted file mode") && file) {
      file.operation = "delete";
    } else if (line.startsWith("@@")) {
      const here: DiffFile = file ?? open();
      const range = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/.exec(line);
      if (!range) continue;
      hunk = {
        before: Number(range[1]),
        after: Number(range[3]),
        oldLeft: Number(range[2] ?? 1),
        newLeft: Number(range[4] ?? 1),
      };
      here.rows.push({ kind: "hunk", before: undefined, after: undefined, text: (range[5] ?? "").trim() });
    }
  }
  return files;
}

function row(
  file: DiffFile,
  hunk: { before: number; after: number; oldLeft: number; newLeft: number },
  line: string,
): boolean {
  const text = line.slice(1);
  switch (line[0]) {
    case "+":
      file.rows.push({ kind: "added", before: undefined, after: hunk.after++, text });
      file.added++;
      hunk.newLeft--;
      return true;
    case "-":
      file.rows.push({ kind: "removed", before: hunk.before++, after: undefined, text });
      file.removed++;
      hunk.oldLeft--;
      return true;
    case "\\":
      return true;
    case " ":
    case undefined:
      file.rows.push({ kind: "context", before: hunk.before++, after: hunk.after++, text });
      hunk.oldLeft--;
      hunk.newLeft--;
      return true;
    default:
      return false;
  }
}

/** The path of a header line without the prefix `a/` or `b/`; nothing for `/dev/null`. */
function named(header: string): string | undefined {
  const path = header.split("\t", 1)[0]?.replace(/^"|"$/g, "") ?? "";
  return path === "/dev/null" ? undefined : path.replace(/^[ab]\//, "");
}
