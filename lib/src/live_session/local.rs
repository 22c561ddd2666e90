//! Serves files and terminals to the agent in this process when no client offers them. The work runs in tasks of its own and
//! reports back to the inbox of the session.

use std::time::Duration;

use rethread_core::{Input, Json, Update};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::{LiveSession, Message};
use crate::local_services::{LocalTerminal, RootPaths, ServiceResult, ServiceStart, TerminalState};
use crate::wire::{Id, RpcError};

/// The pause between two looks at what a terminal has written.
const LOOK: Duration = Duration::from_millis(50);

/// What comes back.
pub(crate) enum ServiceEvent {
    /// A request was carried out.
    ServiceResult {
        /// For which agent.
        generation: u64,
        /// Its request.
        request: Id,
        /// What came of it.
        done: ServiceResult,
    },
    /// A terminal has written something or has ended.
    Moved(String),
}

impl LiveSession {
    /// Begins to carry a request out.
    pub(super) fn serve_locally(&mut self, request: Id, method: &str, params: &Json) {
        let roots = std::iter::once(&self.agent.setup.cwd).chain(&self.agent.setup.roots).cloned().collect();
        self.services.local.set_environment(self.agent.host.environment());
        match self.services.local.begin(&request, method, params, RootPaths(roots)) {
            ServiceStart::Answer(outcome) => self.answer_request(&request, outcome.as_ref()),
            ServiceStart::Waiting => {}
            ServiceStart::Work(work) => {
                let (own, generation) = (self.mailbox.own.clone(), self.services.local.generation());
                tokio::spawn(async move {
                    let done = work.await;
                    // A session that has ended needs nothing any more; a terminal ends with the message.
                    let result = ServiceEvent::ServiceResult { generation, request, done };
                    let _ = own.send(Box::new(Message::Service(result))).await;
                });
            }
        }
    }

    /// Something that was carried out beside the session came back.
    pub(super) async fn service_event(&mut self, event: ServiceEvent) {
        match event {
            ServiceEvent::ServiceResult { generation, .. }
                if generation != self.services.local.generation() => {}
            ServiceEvent::ServiceResult { request, done: ServiceResult::Answer(outcome), .. } => {
                self.services.local.worked();
                self.answer_request(&request, outcome.as_ref());
            }
            ServiceEvent::ServiceResult { request, done: ServiceResult::Started(terminal), .. } => {
                self.services.local.worked();
                self.terminal_started(&request, terminal).await;
            }
            ServiceEvent::ServiceResult { done: ServiceResult::TerminalChanged(terminal), .. }
            | ServiceEvent::Moved(terminal) => {
                self.terminal_moved(&terminal).await;
            }
        }
    }

    async fn terminal_started(&mut self, request: &Id, terminal: LocalTerminal) {
        let (id, update) = (terminal.id.clone(), terminal.announcement());
        tokio::spawn(watch_over(id.clone(), terminal.states(), self.mailbox.own.clone()));
        self.services.local.add(terminal);
        self.step(vec![Input::Updated { update, known: false }]).await;
        self.answer_request(request, Ok(&json!({"terminalId": id}).into()));
    }

    async fn terminal_moved(&mut self, terminal: &str) {
        let news = self.services.local.news(terminal);
        self.step(as_inputs(news.updates)).await;
        for (request, answer) in news.answers {
            self.answer_request(&request, Ok(&answer));
        }
    }

    /// The agent takes back a request. Says whether it waited here.
    pub(super) fn withdraw_local(&mut self, request: &Id) -> bool {
        let waited = self.services.local.withdraw(request);
        if waited {
            self.answer_request(request, Err(&RpcError::cancelled()));
        }
        waited
    }

    /// Ends what runs for the agent, and writes down what it had to show.
    pub(super) async fn end_local_services(&mut self) {
        let (updates, open) = self.services.local.end();
        for request in open {
            self.answer_request(&request, Err(&RpcError::cancelled()));
        }
        self.step(as_inputs(updates)).await;
    }
}

fn as_inputs(updates: Vec<Update>) -> Vec<Input> {
    updates.into_iter().map(|update| Input::Updated { update, known: true }).collect()
}

/// Has the session look at a terminal when there is something to see, at most so often.
async fn watch_over(
    terminal: String,
    mut moments: watch::Receiver<TerminalState>,
    own: mpsc::Sender<Box<Message>>,
) {
    while moments.changed().await.is_ok() {
        let over = *moments.borrow_and_update() == TerminalState::Exited;
        if own.send(Box::new(Message::Service(ServiceEvent::Moved(terminal.clone())))).await.is_err() {
            return;
        }
        if over {
            tokio::time::sleep(LOOK).await;
        } else {
            // The exit is reported at once. A separate receiver, so that other changes are not marked as seen.
            let mut ahead = moments.clone();
            let _ =
                tokio::time::timeout(LOOK, ahead.wait_for(|moment| *moment == TerminalState::Exited)).await;
        }
    }
}
