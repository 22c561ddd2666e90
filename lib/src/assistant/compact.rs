//! Makes room in a conversation that has become too long for its model: the turns before are summed up by the model
//! itself, and where that is not enough the results of older tool calls of this turn are left out.

use futures::StreamExt;
use serde_json::json;
use uuid::Uuid;

use super::memory;
use super::model::{Event, Message, Model, Request};
use super::talk::{Talk, Telling, told};
use crate::wire::RpcError;

/// How much of a result is left when there is no room for it, in characters.
const LEFT: usize = 400;

const TASK: &str = "Sum up the conversation above for yourself, so that you can go on with only your summary: what the user \
                    wants, what was found out, what was done and with what result, which files matter, what is still to \
                    do. Name paths, names and decisions exactly. Write nothing else.";

/// Makes room, and says whether there was anything to leave out.
pub(super) async fn make_room(talk: &mut Talk<'_>, model: &Model) -> Result<bool, RpcError> {
    if talk.past.is_empty() {
        return Ok(shorten(&mut talk.now));
    }
    let id = format!("compaction-{}", Uuid::now_v7());
    let update =
        |status: &str| json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": status});
    talk.turn.update(update("in_progress")).await;
    match summary(talk, model).await {
        Ok(Some(text)) => {
            let mut done = update("completed");
            done["summary"] = json!([{"type": "text", "text": text}]);
            talk.turn.update(done).await;
            talk.past = vec![memory::summed_up(&text)];
            Ok(true)
        }
        Ok(None) => {
            talk.turn.update(update("cancelled")).await;
            Ok(false)
        }
        Err(error) => {
            let mut failed = update("failed");
            failed["error"] = json!(error.message);
            talk.turn.update(failed).await;
            Err(error)
        }
    }
}

/// What the model makes of the turns before; nothing if the user cancelled.
async fn summary(talk: &mut Talk<'_>, model: &Model) -> Result<Option<String>, RpcError> {
    let mut messages = talk.past.clone();
    shorten(&mut messages);
    fit(&mut messages, model);
    messages.push(Message::user(TASK));
    let request = Request { model: model.id.clone(), messages, ..Request::default() };
    let mut answer = talk.models.stream(&request);
    let mut text = String::new();
    loop {
        let event = tokio::select! {
            biased;
            () = talk.turn.cancelled() => return Ok(None),
            event = answer.next() => event,
        };
        match event {
            Some(Ok(Event::Text(more))) => text.push_str(&more),
            Some(Ok(Event::Finished { .. })) | None if !text.trim().is_empty() => return Ok(Some(text)),
            Some(Ok(Event::Finished { .. })) | None => {
                return Err(RpcError::internal(format!(
                    "{} gave no summary of the conversation",
                    model.name
                ))
                .hint("choose a model with a longer context, or begin a new session"));
            }
            Some(Ok(event @ Event::Retrying { .. })) => {
                talk.tell(model, event, &mut Telling::default()).await
            }
            Some(Ok(Event::Usage(usage))) => talk.paid(&usage),
            Some(Ok(Event::Thought(_) | Event::ToolCall(_))) => {}
            Some(Err(error)) => return Err(told(&error)),
        }
    }
}

/// Leaves out the middle of long results of tools.
fn shorten(messages: &mut [Message]) -> bool {
    let mut shortened = false;
    let before_last = messages.len().saturating_sub(1);
    for message in &mut messages[..before_last] {
        let Message::Tools(results) = message else { continue };
        for result in results.iter_mut().filter(|result| result.text.chars().count() > LEFT + 40) {
            let start: String = result.text.chars().take(LEFT).collect();
            result.text = format!("{start}\n[the rest was left out to make room]");
            shortened = true;
        }
    }
    shortened
}

/// Drops the oldest messages until the rest finds room, for the one that sums them up.
fn fit(messages: &mut Vec<Message>, model: &Model) {
    let Some(window) = model.context_window else { return };
    let most = window / 100 * 70;
    let mut size: u64 = messages.iter().map(Message::estimate).sum();
    let mut dropped = 0;
    while size > most && dropped + 1 < messages.len() {
        size -= messages[dropped].estimate();
        dropped += 1;
    }
    // A conversation begins with the user.
    while dropped > 0 && dropped < messages.len() && !matches!(messages[dropped], Message::User(_)) {
        dropped += 1;
    }
    messages.drain(..dropped);
    if dropped > 0 {
        messages.insert(0, Message::user(format!("[{dropped} older messages were left out]")));
    }
}
