//! A request to a model: the conversation, the tools and the options. Messages can be stored as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::Effort;

/// A request to a model.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The full id: `provider/model`.
    pub model: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// The thought level; the provider's default if none.
    pub effort: Option<Effort>,
    /// The temperature; the provider's default if none.
    pub temperature: Option<f64>,
    /// The maximum number of tokens of the answer.
    pub max_output: Option<u32>,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name. Characters that a provider does not allow are replaced in the request and restored in the answer.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From the user.
    User(Vec<UserPart>),
    /// From a model.
    Assistant(Reply),
    /// The results of the calls in the message before.
    Tools(Vec<ToolResult>),
}

impl Message {
    /// A user message with a text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![UserPart::Text(text.into())])
    }
}

/// A part of a user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The media type, such as `image/png`.
        mime: String,
        /// The bytes in base64.
        data: String,
    },
    /// A resource with its text.
    Resource {
        /// The URI.
        uri: String,
        /// The text.
        text: String,
    },
}

/// The answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The full id of the model. Only this model can use the signatures.
    pub model: String,
    /// The parts, in order.
    pub parts: Vec<Part>,
}

impl Reply {
    /// The tool calls.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) | Part::Thought { .. } | Part::Opaque(_) => None,
        })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Call(_) | Part::Thought { .. } | Part::Opaque(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// A thought.
    Thought {
        /// The text, as far as the provider shows it.
        text: String,
        /// The signature that the provider wants back with the thought.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A tool call.
    Call(ToolCall),
    /// Data that only the provider understands and wants back unchanged.
    Opaque(Value),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id, unique in the conversation.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, or the model's text if it is not a JSON object.
    pub arguments: Result<Value, String>,
    /// Signatures that the provider wants back with the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The text.
    pub text: String,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether the call failed.
    #[serde(default)]
    pub failed: bool,
}

/// An image in the result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The media type, such as `image/png`.
    pub mime: String,
    /// The bytes in base64.
    pub data: String,
}
