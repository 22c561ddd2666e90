//! Checks that each content block of a prompt has the members that its type requires. Whether the agent accepts the
//! type is checked elsewhere.

use std::borrow::Cow;

use rethread_core::{Json, RawMembers};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::RpcError;

/// Refuses a block that lacks a required member; the error names the block and the member. Unknown types pass: the
/// agent decides about them.
pub(super) fn check(blocks: &[&RawValue]) -> Result<(), RpcError> {
    blocks.iter().enumerate().try_for_each(|(at, block)| check_block(&format!("prompt[{at}]"), block))
}

fn check_block(place: &str, block: &RawValue) -> Result<(), RpcError> {
    let fields = object(place, block, "a content block")?;
    let kind = text(place, &fields, "type")?;
    let required: &[&str] = match &*kind {
        "text" => &["text"],
        "image" | "audio" => &["data", "mimeType"],
        "resource_link" => &["name", "uri"],
        "resource" => return check_resource(&format!("{place}.resource"), fields.get("resource")),
        _ => &[],
    };
    required.iter().try_for_each(|name| text(place, &fields, name).map(drop))
}

fn check_resource(place: &str, resource: Option<&RawValue>) -> Result<(), RpcError> {
    let Some(resource) = resource else { return Err(missing(place, "an object")) };
    let fields = object(place, resource, "an object")?;
    text(place, &fields, "uri")?;
    let content = if fields.get("text").is_none() && fields.get("blob").is_some() { "blob" } else { "text" };
    text(place, &fields, content).map(drop)
}

fn object<'a>(place: &str, value: &'a RawValue, expected: &str) -> Result<RawMembers<'a>, RpcError> {
    if value.get().starts_with('{') {
        return Ok(RawMembers::of(value));
    }
    Err(RpcError::field(place, &tree(value), expected).hint("a content block is an object with a \"type\""))
}

fn text<'a>(place: &str, members: &RawMembers<'a>, name: &str) -> Result<Cow<'a, str>, RpcError> {
    members.text(name).ok_or_else(|| {
        let field = format!("{place}.{name}");
        match members.get(name) {
            None => missing(&field, "a string"),
            Some(value) => RpcError::field(&field, &tree(value), "a string"),
        }
    })
}

fn tree(value: &RawValue) -> Value {
    Json::from(value.to_owned()).value()
}

fn missing(field: &str, expected: &str) -> RpcError {
    RpcError::field(field, &Value::Null, expected).hint(format!("add {field}"))
}
