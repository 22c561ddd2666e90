//! What user messages and results of tools of Zed have, as content blocks.

use serde_json::Value;

use crate::importer::updates::{ResourceContent, image, link, resource, text};

/// A block of a user message; `Err` with the name of one that is not known.
pub(super) fn user_block(item: &Value) -> Result<Option<Value>, String> {
    let Some((kind, content)) = variant(item) else { return Err(String::new()) };
    Ok(match kind {
        "Text" => content.as_str().filter(|words| !words.is_empty()).map(text),
        "Image" => content["source"].as_str().map(|data| image("image/png", data)),
        "Mention" => Some(mention(&content["uri"], content["content"].as_str().unwrap_or_default())),
        other => return Err(other.to_owned()),
    })
}

/// The only member of an object: how Zed writes one of several things.
pub(super) fn variant(item: &Value) -> Option<(&str, &Value)> {
    match item {
        Value::String(name) => Some((name, &Value::Null)),
        Value::Object(members) => members.iter().next().map(|(name, value)| (name.as_str(), value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The blocks of a result: one or a list, each a text or an image in one of several shapes.
pub(super) fn result_blocks(content: &Value) -> Vec<Value> {
    match content.as_array() {
        Some(items) => items.iter().filter_map(result_block).collect(),
        None => result_block(content).into_iter().collect(),
    }
}

fn result_block(item: &Value) -> Option<Value> {
    let member = |value: &Value, name: &str| -> Option<Value> {
        let members = value.as_object()?;
        members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let words =
        item.as_str().map(str::to_owned).or_else(|| member(item, "text")?.as_str().map(str::to_owned));
    if let Some(words) = words {
        return Some(text(&words)).filter(|_| !words.is_empty());
    }
    let source = member(item, "source").or_else(|| member(&member(item, "image")?, "source"))?;
    source.as_str().map(|data| image("image/png", data))
}

/// Something that the user named, with its content if that was included.
fn mention(uri: &Value, content: &str) -> Value {
    let (kind, of) = variant(uri).unwrap_or(("mention", &Value::Null));
    let path = of["abs_path"].as_str().or_else(|| of["skill_file_path"].as_str());
    let path = path.or_else(|| of["file_path"].as_str());
    let place = match (path, of["url"].as_str()) {
        (Some(path), _) => format!("file://{path}"),
        (None, Some(url)) => url.to_owned(),
        (None, None) => {
            let id = of["id"].as_str().map(|id| format!("/{id}")).unwrap_or_default();
            format!("zed:///agent/{}{id}", kind.to_lowercase())
        }
    };
    let line = of["line_range"]["start"].as_u64();
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}#L{}", line + 1));
    let file = path.and_then(|path| path.rsplit('/').next());
    let name = of["name"].as_str().or(file).unwrap_or(kind);
    match content.is_empty() {
        true => link(&place, name),
        false => resource(&place, "text/plain", ResourceContent::Text(content)),
    }
}
