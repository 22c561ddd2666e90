// Content of messages and tool calls: texts, images, links, files, and what the page does not know.

import { useMemo, useState } from "preact/hooks";
import { fields, pretty, text, type Json, type JsonObject } from "../core/json.ts";
import { bytes } from "../core/format.ts";
import { visible, visibleLines } from "../core/visible.ts";
import { CodeBlock, Link, Markdown } from "./markdown.tsx";

/** A longer text is shown up to here, until the user asks for more. */
const FOLD = 100_000;
/** A longer text is not read as Markdown. */
const LONGEST_MARKDOWN = 400_000;

/** A text that may be very long. `whole` reads the rest from the server, if it was cut. */
export function LongText(props: { text: string; growing?: boolean; plain?: boolean; cut?: number | undefined; whole?: () => Promise<string | undefined> }) {
  const { text: said, growing = false, plain = false, cut, whole } = props;
  const [unfolded, setUnfolded] = useState(false);
  const [rest, setRest] = useState<string | undefined>(undefined);
  const full = rest ?? said;
  const folded = !unfolded && full.length > FOLD;
  const shown = folded ? full.slice(0, FOLD) : full;
  const size = Math.max(cut ?? 0, full.length);
  const unfold = async () => {
    if (cut !== undefined && whole !== undefined && rest === undefined) setRest(await whole().catch(() => undefined));
    setUnfolded(true);
  };
  return (
    <>
      {plain || shown.length > LONGEST_MARKDOWN ? <PlainText text={shown} /> : <Markdown text={shown} growing={growing} />}
      {(folded || (cut !== undefined && rest === undefined)) && (
        <button type="button" class="show-more" onClick={() => void unfold()}>
          Show all ({bytes(size)})
        </button>
      )}
    </>
  );
}

/** Text in pieces, so that the browser lays out only those that are visible. */
export function PlainText({ text: said }: { text: string }) {
  const pieces = useMemo(() => {
    const found: string[] = [];
    for (let at = 0; at < said.length; at += 8_000) found.push(said.slice(at, at + 8_000));
    return found;
  }, [said]);
  return (
    <div class="plain-text" dir="auto">
      {pieces.map((piece, index) => (
        <div key={index} class="piece">
          {visibleLines(piece)}
        </div>
      ))}
    </div>
  );
}

const IMAGE_TYPES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/;

export function ContentBlock({ block, plain = false }: { block: JsonObject; plain?: boolean }) {
  switch (block["type"]) {
    case "text":
      return <LongText text={text(block["text"]) ?? ""} plain={plain} />;
    case "image":
      return <Picture block={block} />;
    case "resource_link": {
      const uri = text(block["uri"]) ?? "";
      return (
        <p>
          <Link href={uri} label={text(block["title"]) ?? text(block["name"]) ?? uri} />
        </p>
      );
    }
    case "resource":
      return <Resource resource={fields(block["resource"])} />;
    default:
      return <Unknown what={text(block["type"]) ?? "content"} value={block} />;
  }
}

/** An image that came with the message. Vector images and images elsewhere are not loaded. */
function Picture({ block }: { block: JsonObject }) {
  const data = text(block["data"]);
  const type = text(block["mimeType"]) ?? "";
  const uri = text(block["uri"]);
  if (data !== undefined && IMAGE_TYPES.test(type) && /^[A-Za-z0-9+/=\s]*$/.test(data)) {
    return <img class="picture" src={`data:${type};base64,${data}`} alt="Image in the message" loading="lazy" />;
  }
  if (uri !== undefined) return <p><Link href={uri} label={`image: ${uri}`} /></p>;
  return <Unknown what={`image ${visible(type)}`} value={{ ...block, data: data === undefined ? null : `${data.length} characters` }} />;
}

function Resource({ resource }: { resource: JsonObject }) {
  const uri = text(resource["uri"]) ?? "resource";
  const said = text(resource["text"]);
  return (
    <details class="data">
      <summary>{visible(uri)}</summary>
      {said === undefined ? <Unknown what="resource" value={{ ...resource, blob: "…" }} /> : <PlainText text={said.slice(0, FOLD)} />}
    </details>
  );
}

/** What the page does not know is shown as data, folded. */
export function Unknown({ what, value }: { what: string; value: Json | undefined }) {
  return (
    <details class="data">
      <summary>{visible(what)}</summary>
      <CodeBlock code={visibleLines(pretty(value))} language="json" />
    </details>
  );
}
