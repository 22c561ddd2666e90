//! Brings the messages of Zed threads from before format 0.3.0 into the shape that they have since.

use serde_json::{Map, Value, json};

use super::blob::{ZedHead, ZedMessage};
use crate::importer::reader::ReadError;

/// Passes messages on in the new shape. In the oldest formats the results of tools are in the user message that follows, so
/// that a message of the agent waits for the next one.
pub(super) struct Merging<'a> {
    is_older: bool,
    each: &'a mut dyn FnMut(ZedMessage) -> Result<(), ReadError>,
    waiting: Option<ZedMessage>,
}

impl<'a> Merging<'a> {
    pub(super) fn new(head: &ZedHead, each: &'a mut dyn FnMut(ZedMessage) -> Result<(), ReadError>) -> Self {
        Self { is_older: head.is_older(), each, waiting: None }
    }

    /// Takes in the next message.
    pub(super) fn message(&mut self, message: ZedMessage) -> Result<(), ReadError> {
        if !self.is_older {
            return (self.each)(message);
        }
        let ZedMessage { place, body } = message;
        let results = results(&body);
        if body["role"] == "user" && !results.is_empty() {
            if let Some(known) = self
                .waiting
                .as_mut()
                .and_then(|message| message.body["Agent"]["tool_results"].as_object_mut())
            {
                known.extend(results);
            }
            return Ok(());
        }
        self.finish()?;
        self.waiting = newer(&body, results).map(|body| ZedMessage { place, body });
        Ok(())
    }

    /// Passes on the last message.
    pub(super) fn finish(&mut self) -> Result<(), ReadError> {
        match self.waiting.take() {
            Some(message) => (self.each)(message),
            None => Ok(()),
        }
    }
}

/// A message in the new shape; nothing for those of the system and those that people do not see.
fn newer(body: &Value, results: Map<String, Value>) -> Option<Value> {
    let words = |segment: &Value| segment["text"].as_str().unwrap_or_default().to_owned();
    // The oldest have a text, later ones segments.
    let segments = match body["text"].as_str() {
        Some(text) => vec![json!({"type": "text", "text": text})],
        None => body["segments"].as_array().cloned().unwrap_or_default(),
    };
    match body["role"].as_str().unwrap_or_default() {
        "user" if body["is_hidden"] == true => None,
        "user" => {
            // Zed shows what was attached only where nothing was typed.
            let attached = body["context"].as_str().filter(|_| segments.is_empty()).unwrap_or_default();
            let typed = segments.iter().map(words).chain([attached.to_owned()]);
            let content: Vec<_> = typed.map(|words| json!({"Text": words})).collect();
            Some(json!({"User": {"id": body["id"].to_string(), "content": content}}))
        }
        "assistant" => {
            let mut content: Vec<_> = segments
                .iter()
                .map(|segment| match segment["type"].as_str() {
                    Some("thinking") => json!({"Thinking": {"text": words(segment)}}),
                    Some("text") => json!({"Text": words(segment)}),
                    Some(_) | None => json!({"RedactedThinking": ""}),
                })
                .collect();
            let calls = body["tool_uses"].as_array().into_iter().flatten();
            content.extend(calls.map(|call| json!({"ToolUse": call})));
            Some(json!({"Agent": {"content": content, "tool_results": results}}))
        }
        "system" => None,
        // It is counted as one that is not known.
        other => Some(json!({other: {}})),
    }
}

fn results(body: &Value) -> Map<String, Value> {
    let list = body["tool_results"].as_array().into_iter().flatten();
    list.filter_map(|result| Some((result["tool_use_id"].as_str()?.to_owned(), result.clone()))).collect()
}
