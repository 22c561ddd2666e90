//! Encodes a request for `genai`, and repairs what a provider would reject: a call without a result, a thought of another
//! model, an empty message.

use std::collections::HashSet;

use genai::chat::{
    Binary, CacheControl, ChatMessage, ChatRequest, ContentPart, MessageContent, MessageOptions,
    Tool as WireTool, ToolCall as WireCall, ToolResponse,
};
use serde_json::{Value, json};

use super::catalog::ModelFacts;
use super::config::ProviderKind;
use super::names::ToolNames;
use super::request::{Image, Message, Part, Reply, Request, ToolCall, ToolDefinition, ToolResult, UserPart};

/// The result of a call that was not run, because the turn was cancelled or the process ended.
const NOT_CARRIED_OUT: &str = "This call was not carried out.";
/// The text of a message without content, which all providers reject.
const NOTHING: &str = "(an empty message)";
/// Replaces an image that the model does not accept.
const IMAGE_LEFT_OUT: &str = "[an image was left out: this model does not accept it]";

/// Encodes the whole conversation.
pub(super) fn chat(
    request: &Request,
    kind: ProviderKind,
    names: &ToolNames,
    facts: &ModelFacts,
) -> ChatRequest {
    let writer = MessageEncoder { kind, names, model: &request.model };
    let mut messages = Vec::new();
    let mut said = request.messages.iter().peekable();
    while let Some(message) = said.next() {
        match message {
            Message::User(parts) => messages.push(writer.user(parts)),
            Message::Assistant(reply) => {
                messages.extend(writer.reply(reply));
                let results = match said.peek() {
                    Some(Message::Tools(results)) => results.as_slice(),
                    Some(Message::User(_) | Message::Assistant(_)) | None => &[],
                };
                messages.extend(writer.results(reply, results));
            }
            // Results are written with the message that has their calls.
            Message::Tools(_) => {}
        }
    }
    if kind == ProviderKind::Anthropic {
        remember(&mut messages);
    }
    let mut chat = ChatRequest::new(messages);
    if !facts.takes_images {
        leave_out_images(&mut chat);
    }
    chat.system.clone_from(&request.system);
    if !request.tools.is_empty() && facts.takes_tools {
        chat.tools = Some(request.tools.iter().map(|tool| offer(tool, kind, names)).collect());
    }
    chat
}

/// Whether the request contains an image.
pub(super) fn has_images(chat: &ChatRequest) -> bool {
    let is_image = |part: &ContentPart| match part {
        ContentPart::Binary(_) => true,
        ContentPart::Custom(custom) => image_blocks(&custom.data).next().is_some(),
        ContentPart::Text(_)
        | ContentPart::ToolCall(_)
        | ContentPart::ToolResponse(_)
        | ContentPart::ThoughtSignature(_)
        | ContentPart::ReasoningContent(_) => false,
    };
    chat.messages.iter().any(|message| message.content.parts().iter().any(is_image))
}

/// Replaces every image by a note.
pub(super) fn leave_out_images(chat: &mut ChatRequest) {
    let without = |part: ContentPart| match part {
        ContentPart::Binary(_) => ContentPart::Text(IMAGE_LEFT_OUT.to_owned()),
        ContentPart::Custom(mut custom) => {
            let blocks = custom.data.get_mut("content").and_then(Value::as_array_mut);
            for block in blocks.into_iter().flatten() {
                if block["type"] == "image" {
                    *block = json!({"type": "text", "text": IMAGE_LEFT_OUT});
                }
            }
            ContentPart::Custom(custom)
        }
        other @ (ContentPart::Text(_)
        | ContentPart::ToolCall(_)
        | ContentPart::ToolResponse(_)
        | ContentPart::ThoughtSignature(_)
        | ContentPart::ReasoningContent(_)) => other,
    };
    for message in &mut chat.messages {
        let parts = std::mem::take(&mut message.content).into_parts();
        message.content = MessageContent::from_parts(parts.into_iter().map(without).collect::<Vec<_>>());
    }
}

/// The image blocks of a result for Anthropic.
fn image_blocks(result: &Value) -> impl Iterator<Item = &Value> {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == "image")
}

/// Sets the cache mark: every request repeats the conversation, so the provider caches it up to here.
fn remember(messages: &mut [ChatMessage]) {
    if let Some(last) = messages.last_mut() {
        last.options = Some(MessageOptions::from(CacheControl::Ephemeral));
    }
}

fn offer(tool: &ToolDefinition, kind: ProviderKind, names: &ToolNames) -> WireTool {
    let offered = WireTool::new(names.wire(&tool.name))
        .with_description(tool.description.clone())
        .with_schema(tool.schema.clone());
    match kind {
        // By default OpenAI makes every argument required, and models then fill in arguments that they do not need.
        ProviderKind::OpenAiResponses => offered.with_strict(false),
        ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Gemini | ProviderKind::Ollama => {
            offered
        }
    }
}

struct MessageEncoder<'a> {
    kind: ProviderKind,
    names: &'a ToolNames,
    /// The full id of the model of this request.
    model: &'a str,
}

impl MessageEncoder<'_> {
    fn user(&self, parts: &[UserPart]) -> ChatMessage {
        let part = |part: &UserPart| match part {
            UserPart::Text(text) => ContentPart::Text(text.clone()),
            UserPart::Image { mime, data } => {
                ContentPart::Binary(Binary::from_base64(mime.as_str(), data.as_str(), None))
            }
            UserPart::Resource { uri, text } => {
                ContentPart::Text(format!("<resource uri=\"{uri}\">\n{text}\n</resource>"))
            }
        };
        let blank = |part: &ContentPart| matches!(part, ContentPart::Text(text) if text.trim().is_empty());
        let mut parts: Vec<ContentPart> = parts.iter().map(part).filter(|part| !blank(part)).collect();
        if parts.is_empty() {
            parts.push(ContentPart::Text(NOTHING.to_owned()));
        }
        ChatMessage::user(MessageContent::from_parts(parts))
    }

    fn reply(&self, reply: &Reply) -> Option<ChatMessage> {
        let own = reply.model == self.model;
        let parts: Vec<ContentPart> = reply.parts.iter().flat_map(|part| self.part(part, own)).collect();
        // A message with only thoughts is left out.
        let says = |part: &ContentPart| matches!(part, ContentPart::Text(_) | ContentPart::ToolCall(_));
        parts.iter().any(says).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
    }

    fn part(&self, part: &Part, own: bool) -> Vec<ContentPart> {
        match part {
            Part::Text(text) if text.trim().is_empty() => Vec::new(),
            Part::Text(text) => vec![ContentPart::Text(text.clone())],
            Part::Call(call) => vec![ContentPart::ToolCall(self.call(call, own))],
            Part::Thought { text, signature } if own => self.thought(text, signature.as_deref()),
            Part::Opaque(value) if own => vec![ContentPart::from_custom(value.clone(), None)],
            // Thoughts of another model are left out.
            Part::Thought { .. } | Part::Opaque(_) => Vec::new(),
        }
    }

    fn thought(&self, text: &str, signature: Option<&str>) -> Vec<ContentPart> {
        let signature = signature.map(|signature| ContentPart::ThoughtSignature(signature.to_owned()));
        let thought = ContentPart::ReasoningContent(text.to_owned());
        match self.kind {
            // Anthropic accepts a thought only with its signature.
            ProviderKind::Anthropic => {
                signature.map(|signature| vec![signature, thought]).unwrap_or_default()
            }
            ProviderKind::OpenAiResponses | ProviderKind::Gemini => signature.into_iter().collect(),
            ProviderKind::OpenAi if !text.is_empty() => vec![thought],
            ProviderKind::OpenAi | ProviderKind::Ollama => Vec::new(),
        }
    }

    fn call(&self, call: &ToolCall, own: bool) -> WireCall {
        let arguments = match &call.arguments {
            Ok(arguments) => arguments.clone(),
            // Some providers accept only an object; the result has the error.
            Err(text) => json!({"unreadable": text}),
        };
        let signatures = (own && !call.signatures.is_empty()).then(|| call.signatures.clone());
        WireCall {
            call_id: call.id.clone(),
            fn_name: self.names.wire(&call.name),
            fn_arguments: arguments,
            thought_signatures: signatures,
        }
    }

    /// One result for each call of the message, and the images of the results.
    fn results(&self, reply: &Reply, kept: &[ToolResult]) -> Vec<ChatMessage> {
        let mut answered = HashSet::new();
        let results: Vec<(&ToolCall, Option<&ToolResult>)> = reply
            .calls()
            .filter(|call| answered.insert(call.id.as_str()))
            .map(|call| (call, kept.iter().find(|result| result.id == call.id)))
            .collect();
        let parts: Vec<ContentPart> = results
            .iter()
            .map(|(call, result)| match result {
                Some(result) => self.result(call, result),
                None => self.marked_result(call, NOT_CARRIED_OUT),
            })
            .collect();
        match self.kind {
            _ if parts.is_empty() => Vec::new(),
            // Anthropic accepts images in results.
            ProviderKind::Anthropic => vec![ChatMessage::tool(MessageContent::from_parts(parts))],
            // One message for each result: of several in one message, `genai` sends only the last.
            ProviderKind::Ollama => {
                let messages = parts.into_iter().map(ChatMessage::tool);
                messages.chain(self.images_behind(&results)).collect()
            }
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses | ProviderKind::Gemini => {
                let message = ChatMessage::tool(MessageContent::from_parts(parts));
                std::iter::once(message).chain(self.images_behind(&results)).collect()
            }
        }
    }

    /// The images of results as a user message: most providers accept only text in results.
    fn images_behind(&self, results: &[(&ToolCall, Option<&ToolResult>)]) -> Option<ChatMessage> {
        let mut parts = Vec::new();
        for (call, result) in results {
            for image in result.iter().flat_map(|result| &result.images) {
                parts.push(ContentPart::Text(format!("Image from the result of {}:", call.name)));
                parts.push(binary(image));
            }
        }
        (!parts.is_empty()).then(|| ChatMessage::user(MessageContent::from_parts(parts)))
    }

    fn result(&self, call: &ToolCall, result: &ToolResult) -> ContentPart {
        match (self.kind, result.failed) {
            (ProviderKind::Anthropic, false) if !result.images.is_empty() => {
                let text = json!({"type": "text", "text": result.text});
                let images = result.images.iter().map(|Image { mime, data }| {
                    json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}})
                });
                let content: Vec<_> =
                    std::iter::once(text).filter(|_| !result.text.is_empty()).chain(images).collect();
                let block = json!({"type": "tool_result", "tool_use_id": call.id, "content": content});
                ContentPart::from_custom(block, None)
            }
            (_, true) => self.marked_result(call, &result.text),
            (_, false) => self.response(call, result.text.clone()),
        }
    }

    /// Encodes the result of a failed call.
    fn marked_result(&self, call: &ToolCall, text: &str) -> ContentPart {
        match self.kind {
            ProviderKind::Anthropic => {
                let block =
                    json!({"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": true});
                ContentPart::from_custom(block, None)
            }
            // The other kinds have no error flag.
            ProviderKind::OpenAi
            | ProviderKind::OpenAiResponses
            | ProviderKind::Gemini
            | ProviderKind::Ollama => {
                let text = text.strip_prefix("error: ").unwrap_or(text);
                self.response(call, format!("Error: {text}"))
            }
        }
    }

    fn response(&self, call: &ToolCall, text: String) -> ContentPart {
        ToolResponse::new(call.id.clone(), text).with_fn_name(self.names.wire(&call.name)).into()
    }
}

fn binary(image: &Image) -> ContentPart {
    ContentPart::Binary(Binary::from_base64(image.mime.as_str(), image.data.as_str(), None))
}
