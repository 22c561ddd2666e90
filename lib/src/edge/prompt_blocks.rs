//! Checks that each content block of a prompt has the members that its type requires. Whether the agent accepts the
//! type is checked elsewhere.

use rethread_core::{Fields, Json};
use serde_json::Value;

use crate::wire::RpcError;

/// Refuses a block that lacks a required member; the error names the block and the member. Unknown types pass: the
/// agent decides about them.
pub(super) fn check(blocks: &[Json]) -> Result<(), RpcError> {
    blocks.iter().enumerate().try_for_each(|(at, block)| check_block(&format!("prompt[{at}]"), block))
}

fn check_block(place: &str, block: &Json) -> Result<(), RpcError> {
    let fields = object(place, block, "a content block")?;
    let kind = text(place, &fields, "type")?;
    let required: &[&str] = match kind.as_str() {
        "text" => &["text"],
        "image" | "audio" => &["data", "mimeType"],
        "resource_link" => &["name", "uri"],
        "resource" => return check_resource(&format!("{place}.resource"), fields.get("resource")),
        _ => &[],
    };
    required.iter().try_for_each(|name| text(place, &fields, name).map(drop))
}

fn check_resource(place: &str, resource: Option<&Json>) -> Result<(), RpcError> {
    let Some(resource) = resource else { return Err(missing(place, "an object")) };
    let fields = object(place, resource, "an object")?;
    text(place, &fields, "uri")?;
    let content = if fields.get("text").is_none() && fields.get("blob").is_some() { "blob" } else { "text" };
    text(place, &fields, content).map(drop)
}

fn object(place: &str, value: &Json, expected: &str) -> Result<Fields, RpcError> {
    if value.text().starts_with('{') {
        return Ok(value.fields());
    }
    Err(RpcError::field(place, &value.value(), expected).hint("a content block is an object with a \"type\""))
}

fn text(place: &str, fields: &Fields, name: &str) -> Result<String, RpcError> {
    let field = format!("{place}.{name}");
    match fields.get(name) {
        None => Err(missing(&field, "a string")),
        Some(value) => value.as_string().ok_or_else(|| RpcError::field(&field, &value.value(), "a string")),
    }
}

fn missing(field: &str, expected: &str) -> RpcError {
    RpcError::field(field, &Value::Null, expected).hint(format!("add {field}"))
}
