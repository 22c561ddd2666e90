//! A chat without a terminal: one prompt, and the answer as plain text or as JSON lines.

use std::pin::pin;

use rethread::client::AskedQuestion;
use rethread::client::view::ViewChange;
use rethread_core::{Json, QuestionKind, Stop, Subject};
use serde_json::json;

use super::connection::{ChatEvent, Conversation, failure};
use super::json_lines::{end_line, event_line, question_line};
use super::message_text::{MessageText, NewText};
use super::permission::{Answered, PermissionPolicy, title_of};
use crate::changes::ReportForm;
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible_lines;
use crate::output::json::json_line;
use crate::output::stream::print;
use crate::server_parts::asked_to_stop;

/// Sends one prompt and prints the answer.
pub(crate) async fn run(
    chat: &mut Conversation,
    content: &Json,
    form: ReportForm,
    policy: PermissionPolicy,
) -> Result<(), Failure> {
    let mut printer = AnswerPrinter { form, text: MessageText::default(), ending: Ending::Empty };
    printer.session(chat)?;
    let session = chat.session.clone();
    let mut turn = pin!(session.prompt(content));
    let mut stop = pin!(asked_to_stop());
    let mut refused = None;
    let outcome = loop {
        tokio::select! {
            biased;
            Some(event) = chat.events.recv() => {
                if let Some(question) = printer.event(chat, event)? {
                    refused = printer.answer(question, policy).await?.or(refused);
                }
            }
            outcome = &mut turn => break outcome,
            () = &mut stop => {
                let _ = session.cancel().await;
                return Err(Failure::interrupted());
            }
        }
    };
    while let Ok(event) = chat.events.try_recv() {
        printer.event(chat, event)?;
    }
    let stop = outcome.map_err(failure)?;
    printer.end(&stop)?;
    ended(&stop).and(refused.map_or(Ok(()), Err))
}

/// The result of a command whose turn ended in this way.
fn ended(stop: &Stop) -> Result<(), Failure> {
    match stop.reason.as_str() {
        "end_turn" => Ok(()),
        "cancelled" => Err(Failure::interrupted()),
        "refusal" => Err(Failure::new(ExitCode::Refused, "the agent refused to answer")),
        "max_tokens" => Err(Failure::plain("the answer is incomplete: it reached the token limit")),
        "max_turn_requests" => {
            Err(Failure::plain("the answer is incomplete: the agent made as many requests as it may"))
        }
        other => Err(failed(stop, other)),
    }
}

fn failed(stop: &Stop, reason: &str) -> Failure {
    let error = stop.error.as_ref().map(Json::fields).unwrap_or_default();
    let message = error.text("message").unwrap_or_else(|| format!("the turn ended with {reason}"));
    let hint = error.get("data").and_then(|data| data.fields().text("hint"));
    let failure = Failure::plain(&message);
    hint.map_or_else(|| Failure::plain(&message), |hint| failure.hint(hint))
}

/// How the text so far ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// There is none.
    Empty,
    /// With a line end.
    Line,
    /// Inside a line.
    Open,
}

struct AnswerPrinter {
    form: ReportForm,
    text: MessageText,
    ending: Ending,
}

impl AnswerPrinter {
    fn session(&self, chat: &Conversation) -> Result<(), Failure> {
        match self.form {
            ReportForm::Text => Ok(()),
            ReportForm::Json => {
                print(&json_line(&json!({"type": "session", "id": chat.session.id().as_str()})))
            }
        }
    }

    /// Prints an event; returns a question to be answered.
    fn event(&mut self, chat: &mut Conversation, event: ChatEvent) -> Result<Option<AskedQuestion>, Failure> {
        match event {
            ChatEvent::Happened(session, event) => {
                let change = chat.apply(&session, &event);
                match self.form {
                    ReportForm::Json => event_line(&event).map_or(Ok(()), |line| print(&json_line(&line)))?,
                    ReportForm::Text => self.change(chat, change)?,
                }
                Ok(None)
            }
            ChatEvent::Asked(question) => Ok(Some(question)),
            ChatEvent::Ended(reason) => Err(Failure::plain(&reason)),
        }
    }

    fn change(&mut self, chat: &Conversation, change: Option<ViewChange>) -> Result<(), Failure> {
        let items = chat.view.items();
        match change {
            Some(ViewChange::Appended { item, text }) if items[item].subject == Subject::AgentMessage => {
                let new = self.text.appended(&items[item], &text);
                self.say(new)
            }
            Some(ViewChange::Added(item) | ViewChange::Changed(item))
                if items[item].subject == Subject::AgentMessage =>
            {
                let new = self.text.whole(&items[item]);
                self.say(new)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn say(&mut self, new: NewText) -> Result<(), Failure> {
        let (gap, text) = match (new, self.ending) {
            (NewText::More(text), _) | (NewText::Anew(text), Ending::Empty) => ("", text),
            (NewText::Anew(text), Ending::Line) => ("\n", text),
            (NewText::Anew(text), Ending::Open) => ("\n\n", text),
        };
        if text.is_empty() {
            return Ok(());
        }
        self.ending = if text.ends_with('\n') { Ending::Line } else { Ending::Open };
        print(&format!("{gap}{}", visible_lines(&text)))
    }

    /// Answers a question; returns the failure of the command if that is one.
    async fn answer(
        &self,
        question: AskedQuestion,
        policy: PermissionPolicy,
    ) -> Result<Option<Failure>, Failure> {
        let (kind, body) = (question.kind, question.body.value());
        let about = title_of(&body);
        let answered = policy.answer(question).await;
        if self.form == ReportForm::Json {
            print(&json_line(&question_line(kind, &body, &answered)))?;
        }
        let fails = match (kind, policy, &answered) {
            (QuestionKind::Permission, PermissionPolicy::RejectAndFail, _) => true,
            (QuestionKind::Permission, PermissionPolicy::Allow, Answered::Nothing) => true,
            (QuestionKind::Permission | QuestionKind::Elicitation, _, _) => false,
        };
        let failure = || {
            Failure::new(
                ExitCode::Refused,
                format!("the agent asked for a permission, which was rejected: {about}"),
            )
            .hint("use --yes to allow what the agent asks for, or --no to reject it without an error")
        };
        Ok(fails.then(failure))
    }

    fn end(&self, stop: &Stop) -> Result<(), Failure> {
        match (self.form, self.ending) {
            (ReportForm::Json, _) => print(&json_line(&end_line(stop))),
            (ReportForm::Text, Ending::Open) => print("\n"),
            (ReportForm::Text, Ending::Empty | Ending::Line) => Ok(()),
        }
    }
}
