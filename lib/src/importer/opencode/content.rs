//! The files that messages and results of opencode have, as content blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::importer::updates::{ResourceContent, image, link, resource};

/// A file as a block: an image, other content that is included, or a link.
pub(super) fn file_block(file: &Value) -> Option<Value> {
    let url = file["url"].as_str().or_else(|| file["uri"].as_str())?;
    let name = file["filename"].as_str().or_else(|| file["name"].as_str());
    let name = name.filter(|name| !name.is_empty()).unwrap_or("file");
    let Some(data) = url.strip_prefix("data:") else {
        return Some(link(url, name));
    };
    let (kind, content) = data.split_once(',')?;
    let mime = kind.split(';').next().unwrap_or_default();
    let mime = if mime.is_empty() { file["mime"].as_str().unwrap_or("text/plain") } else { mime };
    if !kind.ends_with(";base64") {
        return Some(resource(name, mime, ResourceContent::Text(content)));
    }
    if mime.starts_with("image/") {
        return Some(image(mime, content));
    }
    let is_text = mime.starts_with("text/") || mime == "application/json";
    let decoded = is_text.then(|| STANDARD.decode(content).ok()).flatten();
    Some(match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(words) => resource(name, mime, ResourceContent::Text(&words)),
        None => resource(name, mime, ResourceContent::Base64(content)),
    })
}

/// The image in a file that a tool gave; other files are in its text.
pub(super) fn image_block(file: &Value) -> Option<Value> {
    file_block(file).filter(|block| block["type"] == "image")
}
