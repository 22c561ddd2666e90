//! Answers the questions of an agent where nobody can be asked.

use rethread::client::AskedQuestion;
use rethread::client::view::{PermissionChoice, ViewQuestion};
use rethread_core::QuestionKind;
use serde_json::Value;

/// How permissions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionPolicy {
    /// Allows what is asked for, once.
    Allow,
    /// Rejects it.
    Reject,
    /// Rejects it, and the command fails because of that.
    RejectAndFail,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// This option of a permission.
    Option(PermissionChoice),
    /// Nothing: no option fits, or it was no permission.
    Nothing,
}

impl PermissionPolicy {
    /// The option that follows from the policy. "Always" is never chosen for the user.
    pub(crate) fn choose(self, choices: &[PermissionChoice]) -> Option<PermissionChoice> {
        let kinds: &[&str] = match self {
            Self::Allow => &["allow_once"],
            Self::Reject | Self::RejectAndFail => &["reject_once", "reject_always"],
        };
        let of_kind = |kind: &&str| choices.iter().find(|choice| choice.kind == *kind).cloned();
        kinds.iter().find_map(of_kind)
    }

    /// Answers a question.
    pub(crate) async fn answer(self, question: AskedQuestion) -> Answered {
        let choices = choices(&question);
        let choice = match question.kind {
            QuestionKind::Permission => self.choose(&choices),
            QuestionKind::Elicitation => None,
        };
        match choice {
            Some(choice) => {
                question.select(&choice.id).await;
                Answered::Option(choice)
            }
            None => {
                question.cancel().await;
                Answered::Nothing
            }
        }
    }
}

/// The answers that a permission question offers.
pub(crate) fn choices(question: &AskedQuestion) -> Vec<PermissionChoice> {
    let body = question.body.value();
    ViewQuestion { id: question.id.clone(), kind: question.kind, body }.choices()
}

/// What a question is about, in one line.
pub(crate) fn title_of(body: &Value) -> String {
    let texts =
        [&body["title"], &body["subject"]["toolCall"]["title"], &body["toolCall"]["title"], &body["message"]];
    texts.iter().find_map(|text| text.as_str()).unwrap_or("a question").to_owned()
}
