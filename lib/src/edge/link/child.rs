//! The words of sub-agents. They are kept in the journal of the session that the sub-agent belongs to, under the
//! id of its own session, in canonical shape. Their ids stay as they are: they are apart from those around them.

use rethread_core::{Fields, Input, Json, Update, UpdateKind};

use super::Link;
use super::hear::ONLY_PLAN;
use crate::edge::{Version, v1};
use crate::ids;

impl Link {
    /// Notes the session of a sub-agent that an update announces.
    pub(super) fn note_child(&mut self, update: &Fields) {
        if update.text("sessionUpdate").as_deref() == Some("subagent_update")
            && let Some(child) = update.text("sessionId")
        {
            self.children.entry(child).or_default();
        }
    }

    /// What a sub-agent says, as an input.
    pub(super) fn of_child(&mut self, child: String, update: Fields) -> Input {
        let body = match self.version {
            Version::V1 => self.child_v1(&child, update),
            Version::V2 => update.json(),
        };
        self.heard(Update { kind: UpdateKind::Other, id: child, body })
    }

    fn child_v1(&mut self, child: &str, mut update: Fields) -> Json {
        let tag = update.text("sessionUpdate").unwrap_or_default();
        match tag.as_str() {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                if update.text("messageId").is_none() {
                    let id = self.child_message(child, UpdateKind::of_tag(&tag));
                    update.set("messageId", Json::of(&id));
                } else if let Some(speaking) = self.children.get_mut(child) {
                    *speaking = None;
                }
                update.json()
            }
            "plan" => v1::plan::from_v1(update, ONLY_PLAN),
            "config_option_update" => {
                let list = update.get("configOptions").map(v1::options::list_from_v1).unwrap_or_default();
                update.set("configOptions", Json::of(&list));
                update.json()
            }
            _ => {
                if let ("tool_call" | "tool_call_update", Some(speaking)) =
                    (tag.as_str(), self.children.get_mut(child))
                {
                    *speaking = None;
                }
                v1::to_canonical_simple(&tag, update)
            }
        }
    }

    /// The id of the message that a sub-agent is saying, by the rule that holds for agents.
    fn child_message(&mut self, child: &str, kind: UpdateKind) -> String {
        match self.children.get(child) {
            Some(Some((spoken, id))) if *spoken == kind => id.clone(),
            Some(_) | None => {
                let id = ids::message_id().0;
                self.children.insert(child.to_owned(), Some((kind, id.clone())));
                id
            }
        }
    }
}
