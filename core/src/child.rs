//! The sub-agents that an agent has announced, each as a client is told of it that was not there.

use serde::{Deserialize, Serialize};

use crate::merge::patched_meta;
use crate::{Json, Update, UpdateKind};

/// A sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Its own session.
    pub session: String,
    /// The session of the sub-agent that announced it; empty if the agent itself did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// What is true of it, as one announcement.
    pub body: Json,
}

/// Takes in an update if it announces a sub-agent or says more of one.
pub(crate) fn heard(children: &mut Vec<Child>, update: &Update) {
    // All that sub-agents say comes by here: most of it need not be read.
    if update.kind != UpdateKind::Other || !update.body.text().contains("\"subagent_update\"") {
        return;
    }
    let fields = update.body.fields();
    let announced = fields.text("sessionUpdate").as_deref() == Some("subagent_update");
    let Some(session) = fields.text("sessionId").filter(|_| announced) else { return };
    match children.iter_mut().find(|child| child.session == session) {
        Some(child) => child.body = patched(&child.body, &update.body),
        None => {
            let body = patched(&Json::of(&crate::Fields::new()), &update.body);
            children.push(Child { session, parent: update.id.clone(), body });
        }
    }
}

/// A member that is null is taken away; metadata is patched by key.
fn patched(old: &Json, new: &Json) -> Json {
    let mut fields = old.fields();
    for (name, value) in new.fields().iter() {
        match (name, fields.get(name)) {
            _ if value.is_null() => {
                fields.take(name);
            }
            ("_meta", Some(meta)) => {
                let meta = patched_meta(meta, value);
                fields.set(name, meta);
            }
            _ => fields.set(name, value.clone()),
        }
    }
    fields.json()
}
