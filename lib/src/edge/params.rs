//! Reads request parameters, with errors that name the wrong member, what was sent and what was expected.

use std::path::Path;

use rethread_core::{Fields, Json};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::{RpcError, code};

/// The maximum length of a path: `PATH_MAX` on Linux; other systems allow less.
pub const MAX_PATH_BYTES: usize = 4096;

/// The parameters of one request.
pub struct Params(Fields);

impl Params {
    /// Reads an object. Missing parameters count as an empty object.
    pub fn read(params: Option<&RawValue>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Ok(Self(Fields::new())) };
        match serde_json::from_str(params.get()) {
            Ok(fields) => Ok(Self(fields)),
            Err(_) => {
                let got = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                Err(RpcError::field("params", &got, "an object"))
            }
        }
    }

    /// Returns a member that is present and not null.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns all members.
    pub fn fields(&self) -> &Fields {
        &self.0
    }

    /// Returns `_meta` if it is an object.
    pub fn meta(&self) -> Option<Json> {
        self.get("_meta").filter(|meta| meta.text().starts_with('{')).cloned()
    }

    /// Reads a required string.
    pub fn text(&self, name: &str) -> Result<String, RpcError> {
        self.optional_text(name)?.ok_or_else(|| self.wrong(name, "a string"))
    }

    /// Reads a string that may be absent or null.
    pub fn optional_text(&self, name: &str) -> Result<Option<String>, RpcError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => value.as_string().map(Some).ok_or_else(|| self.wrong(name, "a string")),
        }
    }

    /// Reads a required array.
    pub fn items(&self, name: &str) -> Result<Vec<Json>, RpcError> {
        self.get(name).and_then(Json::items).ok_or_else(|| self.wrong(name, "an array"))
    }

    /// Reads an array that may be absent or null, which counts as empty.
    pub fn optional_items(&self, name: &str) -> Result<Vec<Json>, RpcError> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(_) => self.items(name),
        }
    }

    /// Reads a required absolute path.
    pub fn path(&self, name: &str) -> Result<String, RpcError> {
        let path = self.text(name)?;
        absolute(name, &path)?;
        Ok(path)
    }

    /// Reads a list of absolute paths that may be absent or null, which counts as empty.
    pub fn paths(&self, name: &str) -> Result<Vec<String>, RpcError> {
        let items = self.optional_items(name)?;
        items
            .iter()
            .enumerate()
            .map(|(at, item)| {
                let field = format!("{name}[{at}]");
                let Some(path) = item.as_string() else {
                    return Err(RpcError::field(&field, &item.value(), "an absolute path"));
                };
                absolute(&field, &path)?;
                Ok(path)
            })
            .collect()
    }

    /// The error for a member that is missing or has the wrong type.
    pub fn wrong(&self, name: &str, expected: &str) -> RpcError {
        match self.0.get(name) {
            Some(got) => RpcError::field(name, &got.value(), expected),
            None => RpcError::new(code::INVALID_PARAMS, format!("missing {name}: expected {expected}"))
                .with("field", name)
                .with("got", Value::Null)
                .with("expected", expected)
                .hint(match self.old_name(name) {
                    Some(old) => format!("did you mean \"{name}\" instead of \"{old}\"?"),
                    None => format!("add \"{name}\" to the parameters"),
                }),
        }
    }

    /// Returns the outdated name of a member if the client sent it under that name.
    pub fn old_name(&self, name: &str) -> Option<String> {
        let snake = |name: &str| {
            name.chars().fold(String::new(), |mut snake, c| {
                if c.is_ascii_uppercase() {
                    snake.push('_');
                }
                snake.push(c.to_ascii_lowercase());
                snake
            })
        };
        let older = OLDER_NAMES.iter().filter(|(now, _)| *now == name).map(|(_, older)| (*older).to_owned());
        let written = older.flat_map(|older| [snake(&older), older]).chain([snake(name)]);
        written.filter(|older| older != name).find(|older| self.0.get(older).is_some())
    }
}

/// Members that were renamed in the protocol: the current name and the outdated one.
const OLDER_NAMES: [(&str, &str); 3] =
    [("cwd", "workingDirectory"), ("modeId", "mode"), ("modelId", "model")];

/// Refuses a path that is not absolute or that no system call accepts.
pub fn absolute(field: &str, path: &str) -> Result<(), RpcError> {
    let wrong = |expected: &str| RpcError::field(field, &Value::String(path.to_owned()), expected);
    if !Path::new(path).is_absolute() {
        return Err(wrong("an absolute path").hint("send the full path, from the root of the file system"));
    }
    if path.contains('\0') {
        return Err(wrong("an absolute path without NUL characters"));
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(wrong(&format!("an absolute path of at most {MAX_PATH_BYTES} bytes")));
    }
    Ok(())
}
