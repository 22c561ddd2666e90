//! Checks the schema of a tool's arguments. An unusable schema is replaced by one that allows everything, with a note, so
//! that the tool can still be called.

use rethread_core::Json;
use serde_json::{Map, Value, json};

/// The maximum nesting depth of a schema.
const DEEPEST: usize = 24;

/// A usable schema, and the problem with the original, if there is one.
pub(super) fn usable(schema: Option<&Json>, longest: usize) -> (Value, Option<&'static str>) {
    let Some(schema) = schema.filter(|schema| !schema.is_null()) else {
        return (open(), Some("it has no schema"));
    };
    if schema.text().len() > longest {
        return (open(), Some("its schema is too long"));
    }
    match schema.value() {
        Value::Object(members) => checked(members),
        // Nested too deeply to be parsed, so the value is its text.
        Value::String(_) if schema.text().starts_with('{') => {
            (open(), Some("its schema is nested too deeply"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            (open(), Some("its schema is not an object"))
        }
    }
}

fn open() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": true})
}

fn checked(mut members: Map<String, Value>) -> (Value, Option<&'static str>) {
    match members.get("type") {
        // Arguments are always an object.
        None => drop(members.insert("type".to_owned(), "object".into())),
        Some(kind) if kind == "object" => {}
        Some(_) => return (open(), Some("its schema is not that of an object")),
    }
    if members.get("properties").is_none_or(|properties| !properties.is_object()) {
        members.insert("properties".to_owned(), json!({}));
    }
    let schema = Value::Object(members);
    if depth(&schema) > DEEPEST {
        return (open(), Some("its schema is nested too deeply"));
    }
    match Refs::of(&schema).fault() {
        Some(fault) => (open(), Some(fault)),
        None => (schema, None),
    }
}

fn depth(value: &Value) -> usize {
    1 + children(value).map(depth).max().unwrap_or(0)
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(members) => Box::new(members.values()),
        Value::Array(items) => Box::new(items.iter()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Box::new(std::iter::empty()),
    }
}

/// The references within a schema.
struct Refs<'a> {
    root: &'a Value,
}

impl<'a> Refs<'a> {
    fn of(root: &'a Value) -> Self {
        Self { root }
    }

    /// A problem with the references. Model providers reject missing and recursive ones.
    fn fault(&self) -> Option<&'static str> {
        self.follow(self.root, &mut Vec::new(), &mut Vec::new())
    }

    fn follow(
        &self,
        value: &'a Value,
        path: &mut Vec<&'a str>,
        done: &mut Vec<&'a str>,
    ) -> Option<&'static str> {
        if let Some(name) = value.get("$ref").and_then(Value::as_str).filter(|name| !done.contains(name)) {
            if path.contains(&name) || name == "#" {
                return Some("its schema refers to itself");
            }
            let Some(target) = name.strip_prefix('#').and_then(|at| self.root.pointer(at)) else {
                return Some("its schema refers to a definition that does not exist");
            };
            path.push(name);
            let fault = self.follow(target, path, done);
            path.pop();
            if fault.is_some() {
                return fault;
            }
            done.push(name);
        }
        children(value).find_map(|child| self.follow(child, path, done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(schema: &str) -> Option<&'static str> {
        let (usable, note) = usable(Some(&Json::parse(schema.to_owned()).unwrap()), 4000);
        assert_eq!(usable["type"], "object");
        assert!(usable["properties"].is_object());
        note
    }

    #[test]
    fn a_valid_schema_is_kept() {
        let good = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/b"}, "c": {"$ref": "#/$defs/b"}},
            "$defs": {"b": {"type": "string"}},
        });
        assert_eq!(usable(Some(&good.clone().into()), 4000), (good, None));
        assert_eq!(note("{}"), None);
        assert_eq!(note(r#"{"type":"object","properties":7}"#), None);
    }

    #[test]
    fn an_invalid_schema_is_replaced() {
        assert_eq!(usable(None, 10).1, Some("it has no schema"));
        assert_eq!(note("7"), Some("its schema is not an object"));
        assert_eq!(note(r#""{""#), Some("its schema is not an object"));
        assert_eq!(note(r#"{"type":"string"}"#), Some("its schema is not that of an object"));
        assert_eq!(note(&format!(r#"{{"x":"{}"}}"#, "x".repeat(5000))), Some("its schema is too long"));
        let deep = |times| format!(r#"{{"x":{}{}}}"#, "[".repeat(times), "]".repeat(times));
        assert_eq!(note(&deep(50)), Some("its schema is nested too deeply"));
        assert_eq!(note(&deep(1500)), Some("its schema is nested too deeply"));
    }

    #[test]
    fn a_recursive_schema_is_replaced() {
        for schema in [
            r##"{"properties":{"a":{"$ref":"#"}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"items":{"$ref":"#/$defs/n"}}}}"##,
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
        ] {
            assert_eq!(note(schema), Some("its schema refers to itself"), "{schema}");
        }
        let away = r#"{"properties":{"a":{"$ref":"https://example.org/s"}}}"#;
        assert_eq!(note(away), Some("its schema refers to a definition that does not exist"));
    }
}
