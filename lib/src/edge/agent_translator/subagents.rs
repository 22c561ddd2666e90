//! Decodes the updates of sub-agents. They are stored in the journal of the parent session, under the id of the
//! sub-agent's own session, in canonical form. Their ids stay unchanged, since each sub-agent has its own id space.

use rethread_core::{Fields, Input, Json, Update, UpdateKind};

use super::AgentTranslator;
use super::incoming::ONLY_PLAN;
use crate::edge::{Version, v1};
use crate::ids;

impl AgentTranslator {
    /// Records the session of a sub-agent that an update announces.
    pub(super) fn note_subagent(&mut self, update: &Fields) {
        if update.text("sessionUpdate").as_deref() == Some("subagent_update")
            && let Some(child) = update.text("sessionId")
        {
            self.subagents.entry(child).or_default();
            // It may be a chunk of this sub-agent.
            self.last_chunk = None;
        }
    }

    /// Makes an input of a sub-agent's update.
    pub(super) fn subagent_input(&mut self, child: String, update: Fields) -> Input {
        let body = match self.version {
            Version::V1 => self.subagent_body_v1(&child, update),
            Version::V2 => update.json(),
        };
        self.input(Update { kind: UpdateKind::Other, id: child, body })
    }

    fn subagent_body_v1(&mut self, child: &str, mut update: Fields) -> Json {
        let tag = update.text("sessionUpdate").unwrap_or_default();
        match tag.as_str() {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                if update.text("messageId").is_none() {
                    let id = self.subagent_message_id(child, UpdateKind::of_tag(&tag));
                    update.set("messageId", Json::of(&id));
                } else if let Some(open_message) = self.subagents.get_mut(child) {
                    *open_message = None;
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
                if let ("tool_call" | "tool_call_update", Some(open_message)) =
                    (tag.as_str(), self.subagents.get_mut(child))
                {
                    *open_message = None;
                }
                v1::to_canonical_simple(&tag, update)
            }
        }
    }

    /// The message id for a chunk of a sub-agent, by the same rule as for the agent itself.
    fn subagent_message_id(&mut self, child: &str, kind: UpdateKind) -> String {
        match self.subagents.get(child) {
            Some(Some((spoken, id))) if *spoken == kind => id.clone(),
            Some(_) | None => {
                let id = ids::message_id().0;
                self.subagents.insert(child.to_owned(), Some((kind, id.clone())));
                id
            }
        }
    }
}
