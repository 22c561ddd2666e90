//! What a model is asked: the conversation so far and the tools on offer. It can be stored as JSON and asked again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::Effort;

/// One question to a model.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The full id: `provider/model`.
    pub model: String,
    /// What the model is told to be.
    pub system: Option<String>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What it may call.
    pub tools: Vec<ToolDefinition>,
    /// How much it is to think; the provider decides if nothing is said.
    pub effort: Option<Effort>,
    /// How freely it is to choose its words.
    pub temperature: Option<f64>,
    /// The most tokens of the answer.
    pub max_output: Option<u32>,
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Any name; what a provider does not allow in one is changed on the way and changed back.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// By the user.
    User(Vec<UserPart>),
    /// By a model.
    Assistant(Reply),
    /// By the tools that the model called in the message before.
    Tools(Vec<ToolResult>),
}

impl Message {
    /// A message of the user's with a text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![UserPart::Text(text.into())])
    }
}

/// A part of what the user says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    /// Words.
    Text(String),
    /// A picture.
    Image {
        /// What kind it is, as in `image/png`.
        mime: String,
        /// Its bytes in base64.
        data: String,
    },
    /// A file or the like, with its text.
    Resource {
        /// Where it is from.
        uri: String,
        /// What it says.
        text: String,
    },
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The full id of the model. Its signatures mean something to it alone.
    pub model: String,
    /// What it said, in order.
    pub parts: Vec<Part>,
}

impl Reply {
    /// The tool calls in it.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) | Part::Thought { .. } | Part::Opaque(_) => None,
        })
    }

    /// Its words.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Call(_) | Part::Thought { .. } | Part::Opaque(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// A part of what a model says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text(String),
    /// What it thought.
    Thought {
        /// As far as it shows that.
        text: String,
        /// What the provider wants back, to know its own thought again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A tool that it calls.
    Call(ToolCall),
    /// What only the provider understands, and wants back as it is.
    Opaque(Value),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Tells it from all others of the conversation.
    pub id: String,
    /// The tool's name, as it was offered.
    pub name: String,
    /// The arguments, or the text that the model gave for them if that is no JSON object.
    pub arguments: Result<Value, String>,
    /// What the provider wants back with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What it has to say.
    pub text: String,
    /// The images that it gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether it went wrong.
    #[serde(default)]
    pub failed: bool,
}

/// An image in the result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its media type, such as `image/png`.
    pub mime: String,
    /// Its bytes in base64.
    pub data: String,
}
