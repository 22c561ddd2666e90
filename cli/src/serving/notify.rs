//! Notifications: runs the configured command when a session waits for an answer, ends a turn or fails, with JSON on its
//! standard input. Few run at a time, each for a limited time, and few wait: no session ever waits for one.

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::clock;
use rethread::lock::locked;
use rethread::server::{NewsEvent, NewsItem, NewsReader, SessionNews};
use rethread_core::QuestionKind;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::settings::ServeSettings;
use crate::config::{NotifyConfig, NotifyEvent};
use crate::environment;

/// How many commands run at a time.
const AT_ONCE: usize = 4;
/// How many notifications wait for one of them to end.
const WAITING: usize = 64;
/// How long a command may run, if the configuration does not say.
const LIMIT: Duration = Duration::from_secs(30);
/// How many bytes of a question or an error are handed over.
const LONGEST_PART: usize = 64 * 1024;

/// Notifies until the server is gone.
pub(crate) async fn notify(mut news: NewsReader, settings: Arc<Mutex<ServeSettings>>) {
    let (queue, waiting) = mpsc::channel(WAITING);
    let running = run_all(waiting);
    let reading = async move {
        let mut dropped: u64 = 0;
        while let Some(item) = news.next().await {
            match item {
                NewsItem::Missed(count) => dropped += count,
                NewsItem::Happened(news) => {
                    let config = locked(&settings).notify.clone();
                    let Some(notification) = Notification::of(&news, config) else { continue };
                    dropped += u64::from(queue.try_send(notification).is_err());
                }
            }
            if dropped > 0 {
                tracing::warn!("{dropped} notifications were dropped: their command takes too long");
                dropped = 0;
            }
        }
    };
    tokio::join!(reading, running);
}

/// A command to run, and what it is told.
struct Notification {
    config: NotifyConfig,
    content: String,
}

impl Notification {
    /// What an event is told as; nothing if the configuration does not want it.
    fn of(news: &SessionNews, config: NotifyConfig) -> Option<Self> {
        let (event, mut content) = match &news.event {
            NewsEvent::TurnStarted => return None,
            NewsEvent::Asked { kind, body } => {
                let kind = match kind {
                    QuestionKind::Permission => "permission",
                    QuestionKind::Elicitation => "elicitation",
                };
                let body = if body.text().len() <= LONGEST_PART { body.value() } else { Value::Null };
                (NotifyEvent::Waiting, json!({"question": {"kind": kind, "params": body}}))
            }
            NewsEvent::TurnEnded { stop } if stop.reason == "error" => {
                let error = stop.error.as_ref().filter(|error| error.text().len() <= LONGEST_PART);
                (NotifyEvent::Failed, json!({"error": error.map(|error| error.value())}))
            }
            NewsEvent::TurnEnded { stop } => (NotifyEvent::Ended, json!({"stopReason": stop.reason})),
        };
        if !config.wants(event) {
            return None;
        }
        content["event"] = json!(event);
        content["sessionId"] = json!(news.session);
        content["title"] = json!(news.title);
        content["cwd"] = json!(news.cwd);
        content["agent"] = json!(news.agent);
        content["turn"] = json!(news.turn);
        content["time"] = json!(clock::rfc3339(news.at));
        Some(Self { config, content: format!("{content}\n") })
    }
}

async fn run_all(mut waiting: mpsc::Receiver<Notification>) {
    let mut running = JoinSet::new();
    loop {
        if running.len() >= AT_ONCE {
            running.join_next().await;
        }
        tokio::select! {
            next = waiting.recv() => match next {
                Some(notification) => _ = running.spawn(run(notification)),
                None => return,
            },
            Some(_) = running.join_next() => {}
        }
    }
}

async fn run(notification: Notification) {
    let limit = notification.config.seconds.map_or(LIMIT, |seconds| Duration::from_secs(seconds.get()));
    let program = notification.config.command.first().cloned().unwrap_or_default();
    match started(&notification, limit).await {
        Ok(RunOutcome::Ended(status)) if status.success() => {}
        Ok(RunOutcome::Ended(status)) => {
            tracing::warn!("the notification command {program} failed: {status}")
        }
        Ok(RunOutcome::TooSlow) => {
            tracing::warn!("the notification command {program} was ended after {} s", limit.as_secs());
        }
        Err(error) => tracing::warn!("the notification command {program} cannot be run: {error}"),
    }
}

/// How a command ended.
enum RunOutcome {
    Ended(std::process::ExitStatus),
    TooSlow,
}

async fn started(notification: &Notification, limit: Duration) -> io::Result<RunOutcome> {
    let mut words = notification.config.command.iter();
    let mut command = std::process::Command::new(words.next().map(String::as_str).unwrap_or_default());
    environment::for_agents().apply(&mut command);
    let mut command = Command::from(command);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own, so that everything that it starts can be ended with it.
    let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let input = child.stdin.take();
    let working = async {
        if let Some(mut input) = input {
            // One that does not read it may still do its work.
            let _ = input.write_all(notification.content.as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(limit, working).await {
        Ok(status) => Ok(RunOutcome::Ended(status?)),
        Err(_) => {
            if let Some(group) = group {
                // SAFETY: a plain call; the process was not waited for, so that its id is not another one's.
                unsafe { libc::kill(-group, libc::SIGKILL) };
            }
            Ok(RunOutcome::TooSlow)
        }
    }
}
