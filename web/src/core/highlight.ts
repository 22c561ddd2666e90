// Colours of code, loaded when the first code is shown. Gives nested runs with names of classes; HTML is never made.

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, markdown, php, python, ruby, rust, sql,
  swift, typescript, xml, yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
hljs.registerAliases(["toml"], { languageName: "ini" });

export type CodeRun = string | { classes: string; children: CodeRun[] };

/** The runs of a code; nothing if the language is not known. */
export function highlight(code: string, language: string): CodeRun[] | undefined {
  if (hljs.getLanguage(language) === undefined) return undefined;
  try {
    const result = hljs.highlight(code, { language, ignoreIllegals: true });
    const root = (result as unknown as { _emitter: { rootNode?: EmittedNode; root?: EmittedNode } })._emitter;
    const node = root.rootNode ?? root.root;
    return node === undefined ? undefined : runs(node.children);
  } catch {
    return undefined;
  }
}

interface EmittedNode {
  scope?: string;
  children: (string | EmittedNode)[];
}

function runs(nodes: (string | EmittedNode)[]): CodeRun[] {
  return nodes.map((node) => {
    if (typeof node === "string") return node;
    const scope = /^[a-z_-]+/.exec(node.scope ?? "")?.[0];
    return { classes: scope === undefined ? "" : `hl-${scope}`, children: runs(node.children) };
  });
}
