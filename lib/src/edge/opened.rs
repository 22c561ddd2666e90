//! Encodes the options and commands in the answers to new, load and resume.

use rethread_core::{Fields, Json};
use serde_json::json;

use super::Version;
use super::capabilities::ClientProfile;
use super::v1::options::Options;

/// The options and commands in the answer to new, load or resume. Both are given as updates.
#[must_use]
pub fn opened(client: &ClientProfile, options: Option<&Json>, commands: Option<&Json>) -> Fields {
    let member = |update: Option<&Json>, name: &str| update.and_then(|body| body.fields().take(name));
    let list = member(options, "configOptions").unwrap_or_else(|| json!([]).into());
    let mut answer = Fields::new();
    match client.version {
        Version::V1 => {
            let options = Options::from_v2(&list);
            if !options.is_empty() {
                options.to_v1(client.booleans()).write_to(&mut answer);
            }
        }
        Version::V2 => {
            answer.set("configOptions", list);
            let commands = member(commands, "availableCommands").unwrap_or_else(|| json!([]).into());
            answer.set("availableCommands", commands);
        }
    }
    answer
}
