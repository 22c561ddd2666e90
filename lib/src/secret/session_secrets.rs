//! The secrets of all sessions of a server: environments, headers and command lines of their MCP servers. Agents may
//! repeat them in errors and on stderr, so they are removed from logs, errors and notices. The conversation itself is
//! not changed.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rethread_core::{Fields, Json};
use serde_json::Value;

use super::Secret;
use super::scrub::Scrub;

/// The secrets; clones share them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Scrub>>);

impl Secrets {
    /// Adds the secrets of MCP servers in canonical form.
    pub fn add_servers(&self, servers: &[Fields]) {
        if servers.is_empty() {
            return;
        }
        let mut scrub = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for server in servers {
            for (name, value) in pairs(server, "env") {
                scrub.add(&name, &value);
            }
            for (name, value) in pairs(server, "headers") {
                scrub.add_header(&name, &value);
            }
            let args = server.get("args").and_then(Json::items).unwrap_or_default();
            let args: Vec<_> = args.iter().filter_map(Json::as_string).collect();
            scrub.add_args(args.iter().map(String::as_str));
        }
    }

    /// Adds environment variables of an agent.
    pub fn add_variables<'a>(&self, variables: impl IntoIterator<Item = &'a (String, Secret)>) {
        let mut scrub = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in variables {
            scrub.add(name, value);
        }
    }

    /// Replaces all secrets in a text.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.0.read().unwrap_or_else(PoisonError::into_inner).words(text)
    }

    /// Replaces all secrets in the strings of a value.
    #[must_use]
    pub(crate) fn redact_json(&self, json: &Json) -> Json {
        if self.redact(json.text()) == json.text() {
            return json.clone();
        }
        let mut value = json.value();
        self.redact_value(&mut value);
        value.into()
    }

    /// The length of the longest secret in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).longest()
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.redact_value(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The named values in a list of a server definition.
fn pairs(server: &Fields, list: &str) -> Vec<(String, Secret)> {
    let items = server.get(list).and_then(Json::items).unwrap_or_default();
    let pair = |item: &Json| {
        let item = item.fields();
        Some((item.text("name")?, Secret::new(item.text("value")?)))
    };
    items.iter().filter_map(pair).collect()
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secrets]")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_values_of_a_server_are_redacted() {
        let secrets = Secrets::default();
        let server = json!({"name": "s", "command": "c", "args": ["--token", "arg-secret"],
            "env": [{"name": "KEY", "value": "env \"secret\""}, {"name": "N", "value": "1234"}],
            "headers": [{"name": "Authorization", "value": "Bearer head-secret-0123456789"}]});
        secrets.add_servers(&[Json::from(server).fields()]);
        let said = "arg-secret, env \"secret\", head-secret-0123456789";
        assert_eq!(secrets.redact(said), "[secret], [secret], [secret]");
        let json = json!({"message": format!("it is {said}"), "code": 1234, "n": [1, "1234"]});
        let struck = secrets.redact_json(&json.into());
        assert_eq!(
            struck.value(),
            json!({"message": "it is [secret], [secret], [secret]", "code": 1234, "n": [1, "1234"]})
        );
    }
}
