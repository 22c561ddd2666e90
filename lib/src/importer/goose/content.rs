//! Content of messages and of results of tools of goose, as blocks.

use serde_json::Value;

use crate::importer::updates::{ResourceContent, image, link, resource, text};

/// A block that people see: text, an image, a resource or a link; nothing for others.
pub(super) fn block(item: &Value) -> Option<Value> {
    if !is_for_people(item) {
        return None;
    }
    let field = |name: &str| item[name].as_str().unwrap_or_default();
    match field("type") {
        "text" => Some(text(field("text"))).filter(|_| !field("text").is_empty()),
        "image" => Some(image(field("mimeType"), field("data"))).filter(|_| !field("data").is_empty()),
        "resource" => included(&item["resource"]),
        "resource_link" => Some(link(field("uri"), field("name"))),
        _ => None,
    }
}

/// The items of a result: in older records a list, in newer ones an object with one.
pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array().or_else(|| value["content"].as_array());
    list.into_iter().flatten()
}

/// Says whether content is not for the model alone.
fn is_for_people(item: &Value) -> bool {
    let audience = item["annotations"]["audience"].as_array();
    audience.is_none_or(|audience| audience.is_empty() || audience.iter().any(|role| role == "user"))
}

fn included(content: &Value) -> Option<Value> {
    let (uri, mime) = (content["uri"].as_str()?, content["mimeType"].as_str().unwrap_or("text/plain"));
    match (content["text"].as_str(), content["blob"].as_str()) {
        (Some(words), _) => Some(resource(uri, mime, ResourceContent::Text(words))),
        (None, Some(data)) => Some(resource(uri, mime, ResourceContent::Base64(data))),
        (None, None) => None,
    }
}
