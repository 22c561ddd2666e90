//! Makes room in a conversation that has become too long for its model: the turns before are summed up by the model
//! itself, and where that is not enough the results of tools of this turn are shortened, the older ones first.

use futures::StreamExt;
use serde_json::json;

use super::memory;
use super::model::{Error, Event, Message, Model, Request};
use super::talk::{Talk, Telling, told};
use super::transcript;
use crate::mint;
use crate::wire::RpcError;

/// How much of a result is left when there is no room for it, in characters.
const LEFT: usize = 400;
/// How often a model is asked to sum up ever less of a conversation.
const MOST_TRIES: usize = 4;

const TASK: &str = "Above is a conversation between a user and you. Sum it up for yourself, so that you can go on with only \
                    your summary: what the user wants, what was found out, what was done and with what result, which \
                    files matter, what is still to do. Name paths, names and decisions exactly. Write nothing else.";

/// Stands for turns that no part of could be summed up.
const LOST: &str = "(It was too long to be summed up, and was left out.)";

/// Makes room, and says whether there was anything to leave out. Asked again, it leaves out more.
pub(super) async fn make_room(talk: &mut Talk<'_>, model: &Model) -> Result<bool, RpcError> {
    if !memory::is_summed_up(&talk.past) {
        return sum_up(talk, model).await;
    }
    let older = talk.now.len().saturating_sub(1);
    Ok(shorten(&mut talk.now[..older]) || shorten(&mut talk.now))
}

async fn sum_up(talk: &mut Talk<'_>, model: &Model) -> Result<bool, RpcError> {
    let id = format!("compaction-{}", mint::unique());
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

/// What the model makes of the turns before; nothing if the user cancelled. What is too long even for that is asked
/// for with ever less of it, so that no session is stuck.
async fn summary(talk: &mut Talk<'_>, model: &Model) -> Result<Option<String>, RpcError> {
    let mut messages = talk.past.clone();
    shorten(&mut messages);
    let mut most = model.context_window.map_or(u64::MAX, |window| window / 100 * 70);
    for _ in 0..MOST_TRIES {
        fit(&mut messages, most);
        match ask(talk, model, &messages).await {
            Asked::Summary(text) => return Ok(Some(text)),
            Asked::Cancelled => return Ok(None),
            Asked::TooLong => most = messages.iter().map(Message::estimate).sum::<u64>() / 2,
            Asked::Failed(error) => return Err(error),
        }
    }
    Ok(Some(LOST.to_owned()))
}

/// What came of asking for a summary once.
enum Asked {
    Summary(String),
    Cancelled,
    TooLong,
    Failed(RpcError),
}

async fn ask(talk: &mut Talk<'_>, model: &Model, messages: &[Message]) -> Asked {
    // As one text: providers want tools on offer where a conversation has calls, and none is to be called here.
    let whole = format!("{}\n\n{TASK}", transcript::of(messages));
    let request =
        Request { model: model.id.clone(), messages: vec![Message::user(whole)], ..Request::default() };
    let mut answer = talk.models.stream(&request);
    let mut text = String::new();
    loop {
        let event = tokio::select! {
            biased;
            () = talk.turn.cancelled() => return Asked::Cancelled,
            event = answer.next() => event,
        };
        match event {
            Some(Ok(Event::Text(more))) => text.push_str(&more),
            Some(Ok(Event::Finished { .. })) | None if !text.trim().is_empty() => {
                return Asked::Summary(text);
            }
            Some(Ok(Event::Finished { .. })) | None => return Asked::Failed(no_summary(model)),
            Some(Ok(event @ (Event::Retrying { .. } | Event::LeftOut { .. }))) => {
                talk.tell(model, event, &mut Telling::default()).await
            }
            Some(Ok(Event::Usage(usage))) => talk.paid(&usage),
            Some(Ok(Event::Thought(_) | Event::Calling { .. } | Event::ToolCall(_))) => {}
            Some(Err(Error::ContextTooLong { .. })) => return Asked::TooLong,
            Some(Err(error)) => return Asked::Failed(told(&error)),
        }
    }
}

fn no_summary(model: &Model) -> RpcError {
    RpcError::internal(format!("{} gave no summary of the conversation", model.name))
        .hint("choose a model with a longer context, or begin a new session")
}

/// Leaves out the rest of long results of tools.
fn shorten(messages: &mut [Message]) -> bool {
    let mut shortened = false;
    for message in messages {
        let Message::Tools(results) = message else { continue };
        for result in results.iter_mut().filter(|result| result.text.chars().count() > LEFT + 40) {
            let start: String = result.text.chars().take(LEFT).collect();
            result.text = format!("{start}\n[the rest was left out to make room]");
            shortened = true;
        }
    }
    shortened
}

/// Drops the oldest messages until the rest is no longer than this, for the one that sums them up.
fn fit(messages: &mut Vec<Message>, most: u64) {
    let mut size: u64 = messages.iter().map(Message::estimate).sum();
    let mut dropped = 0;
    while size > most && dropped + 1 < messages.len() {
        size -= messages[dropped].estimate();
        dropped += 1;
    }
    messages.drain(..dropped);
    if dropped > 0 {
        messages.insert(0, Message::user(format!("[{dropped} older messages were left out]")));
    }
}
