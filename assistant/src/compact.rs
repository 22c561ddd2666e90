//! Compacts a conversation that is too long for its model: the model summarises the earlier turns; if that is not enough,
//! tool results of the current turn are shortened, those of the newest message last and no more than necessary.

use futures::StreamExt;
use rethread::ids;
use rethread::wire::RpcError;
use serde_json::json;

use crate::memory;
use crate::model::{Message, Model, ModelError, ModelEvent, Request, ToolResult};
use crate::model_events::{MessageWriters, ModelTurn, rpc_error};
use crate::transcript;

/// The minimum length of a shortened result, in characters.
const LEFT: usize = 400;
/// The number of plain characters of a token, as `estimate` counts.
const CHARACTERS: u64 = 4;
/// The number of tokens of the note about what was left out.
const NOTE: u64 = 24;
/// The maximum number of attempts to get a summary, each of a shorter conversation.
const MOST_TRIES: usize = 4;

const TASK: &str = "Above is a conversation between a user and you. Sum it up for yourself, so that you can go on with only \
                    your summary: what the user wants, what was found out, what was done and with what result, which \
                    files matter, what is still to do. Name paths, names and decisions exactly. Write nothing else.";

/// The summary if the model cannot summarise any part of the turns.
const LOST: &str = "(It was too long to be summarised, and was left out.)";

/// By how much a conversation exceeds the window.
#[derive(Clone, Copy)]
pub(crate) enum Excess {
    /// The estimated number of tokens.
    Tokens(u64),
    /// The provider reported no number.
    Unknown,
}

/// Shortens the conversation and returns whether that was possible. Another call shortens it more.
pub(crate) async fn make_room(
    turn: &mut ModelTurn<'_>,
    model: &Model,
    excess: Excess,
) -> Result<bool, RpcError> {
    if !memory::is_summed_up(&turn.past) {
        return summarise(turn, model).await;
    }
    let over = match excess {
        Excess::Tokens(tokens) => tokens,
        Excess::Unknown => results(&mut turn.now).map(|result| result.estimate()).sum::<u64>() / 2,
    };
    let last = turn.now.len().saturating_sub(1);
    let (older, newest) = turn.now.split_at_mut(last);
    let saved = shorten(older, over);
    Ok(saved + shorten(newest, over.saturating_sub(saved)) > 0)
}

async fn summarise(turn: &mut ModelTurn<'_>, model: &Model) -> Result<bool, RpcError> {
    let id = format!("compaction-{}", ids::unique());
    let update =
        |status: &str| json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": status});
    turn.turn.update(update("in_progress")).await;
    match summary(turn, model).await {
        Ok(Some(text)) => {
            let mut done = update("completed");
            done["summary"] = json!([{"type": "text", "text": text}]);
            turn.turn.update(done).await;
            turn.past = vec![memory::summed_up(&text)];
            Ok(true)
        }
        Ok(None) => {
            turn.turn.update(update("cancelled")).await;
            Ok(false)
        }
        Err(error) => {
            let mut failed = update("failed");
            failed["error"] = json!(error.message);
            turn.turn.update(failed).await;
            Err(error)
        }
    }
}

/// The model's summary of the earlier turns; `None` if the user cancelled. Retries with fewer messages if they are too
/// long to be summarised.
async fn summary(turn: &mut ModelTurn<'_>, model: &Model) -> Result<Option<String>, RpcError> {
    let mut messages = turn.past.clone();
    results(&mut messages).for_each(|result| cut(result, LEFT as u64 / CHARACTERS));
    let mut most = model.context_window.map_or(u64::MAX, |window| window / 100 * 70);
    for _ in 0..MOST_TRIES {
        fit(&mut messages, most);
        match ask(turn, model, &messages).await {
            SummaryAttempt::Summary(text) => return Ok(Some(text)),
            SummaryAttempt::Cancelled => return Ok(None),
            SummaryAttempt::TooLong => most = messages.iter().map(Message::estimate).sum::<u64>() / 2,
            SummaryAttempt::Failed(error) => return Err(error),
        }
    }
    Ok(Some(LOST.to_owned()))
}

/// The result of one attempt to get a summary.
enum SummaryAttempt {
    Summary(String),
    Cancelled,
    TooLong,
    Failed(RpcError),
}

async fn ask(turn: &mut ModelTurn<'_>, model: &Model, messages: &[Message]) -> SummaryAttempt {
    // Sent as one text: providers require tools in a request with calls, but no tool must be called here.
    let whole = format!("{}\n\n{TASK}", transcript::of(messages));
    let request =
        Request { model: model.id.clone(), messages: vec![Message::user(whole)], ..Request::default() };
    let mut answer = turn.models.stream(&request);
    let mut text = String::new();
    loop {
        let event = tokio::select! {
            biased;
            () = turn.turn.cancelled() => return SummaryAttempt::Cancelled,
            event = answer.next() => event,
        };
        match event {
            Some(Ok(ModelEvent::Text(more))) => text.push_str(&more),
            Some(Ok(ModelEvent::Finished { .. })) | None if !text.trim().is_empty() => {
                return SummaryAttempt::Summary(text);
            }
            Some(Ok(ModelEvent::Finished { .. })) | None => return SummaryAttempt::Failed(no_summary(model)),
            Some(Ok(event @ (ModelEvent::Retrying { .. } | ModelEvent::LeftOut { .. }))) => {
                turn.show(model, event, &mut MessageWriters::default()).await
            }
            Some(Ok(ModelEvent::Usage(usage))) => turn.paid(&usage),
            Some(Ok(
                ModelEvent::Thought(_) | ModelEvent::ToolCallStarted { .. } | ModelEvent::ToolCall(_),
            )) => {}
            Some(Err(ModelError::ContextTooLong { .. })) => return SummaryAttempt::TooLong,
            Some(Err(error)) => return SummaryAttempt::Failed(rpc_error(&error)),
        }
    }
}

fn no_summary(model: &Model) -> RpcError {
    RpcError::internal(format!("{} sent no summary of the conversation", model.name))
        .hint("choose a model with a longer context, or begin a new session")
}

/// The tool results in these messages.
fn results(messages: &mut [Message]) -> impl Iterator<Item = &mut ToolResult> {
    messages.iter_mut().flat_map(|message| match message {
        Message::Tools(results) => results.as_mut_slice(),
        Message::User(_) | Message::Assistant(_) => &mut [],
    })
}

/// Removes about this many tokens from tool results, the longest first, then images if necessary. Returns the number of
/// tokens removed.
fn shorten(messages: &mut [Message], over: u64) -> u64 {
    let sizes: Vec<u64> = results(messages).map(|result| result.estimate()).collect();
    let before: u64 = sizes.iter().sum();
    let over = if over > 0 { over + NOTE * sizes.len() as u64 } else { 0 };
    let saved = |most: u64| sizes.iter().map(|size| size.saturating_sub(most)).sum::<u64>();
    // Finds the largest maximum size that saves enough.
    let (mut low, mut high) = (LEFT as u64 / CHARACTERS, sizes.iter().copied().max().unwrap_or(0));
    if over == 0 || high <= low {
        return 0;
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if saved(middle) >= over { low = middle } else { high = middle - 1 }
    }
    results(messages).for_each(|result| cut(result, low));
    let left = |messages: &mut [Message]| results(messages).map(|result| result.estimate()).sum::<u64>();
    while before - left(messages).min(before) < over
        && let Some(result) = results(messages).find(|result| !result.images.is_empty())
    {
        result.images.pop();
        result.text.push_str("\n[an image was left out to make room]");
    }
    before - left(messages).min(before)
}

/// Removes the middle of a result that is longer than this many tokens, but not its images.
fn cut(result: &mut ToolResult, most: u64) {
    if result.estimate() <= most + NOTE {
        return;
    }
    let room = most.saturating_sub(NOTE).max(LEFT as u64 / CHARACTERS);
    let head = length_of(result.text.chars(), room - room / 3);
    let tail = result.text.len() - length_of(result.text.chars().rev(), room / 3);
    if head < tail {
        let (start, end) = (&result.text[..head], &result.text[tail..]);
        let left_out = tail - head;
        result.text = format!("{start}\n[{left_out} bytes were left out to make room]\n{end}");
    }
}

/// The number of bytes at the beginning of these characters that are about this many tokens.
fn length_of(characters: impl Iterator<Item = char>, tokens: u64) -> usize {
    let mut room = tokens * CHARACTERS;
    let mut length = 0;
    for c in characters {
        let cost = if c.is_ascii() { 1 } else { CHARACTERS };
        if cost > room {
            break;
        }
        room -= cost;
        length += c.len_utf8();
    }
    length
}

/// Drops the oldest messages until the rest fits into this many tokens.
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

#[cfg(test)]
mod tests {
    use super::{Message, ToolResult, cut, results, shorten};
    use crate::model::Image;

    fn result(text: &str) -> ToolResult {
        let (id, name) = ("1".to_owned(), "read".to_owned());
        ToolResult { id, name, text: text.to_owned(), images: Vec::new(), failed: false }
    }

    #[test]
    fn long_results_are_cut_and_short_ones_stay() {
        let texts = ["a".repeat(40_000), "b".repeat(20_000), "c".repeat(100)];
        let mut messages = [Message::Tools(texts.iter().map(|text| result(text)).collect())];
        let saved = shorten(&mut messages, 6_000);
        let lengths: Vec<_> = results(&mut messages).map(|result| result.text.len()).collect();
        assert!((6_000..6_100).contains(&saved), "{saved}");
        assert!(lengths[0] > 15_000 && lengths[1] > 15_000 && lengths[2] == 100, "{lengths:?}");
    }

    #[test]
    fn head_and_tail_of_a_result_are_kept() {
        let mut long = result(&format!("begin {} end", "é".repeat(10_000)));
        cut(&mut long, 0);
        assert!(long.text.starts_with("begin é") && long.text.ends_with("é end"), "{}", long.text);
        let mut messages = [Message::Tools(vec![long.clone()])];
        assert_eq!(shorten(&mut messages, 1_000_000), 0, "nothing more can be removed");
    }

    #[test]
    fn images_are_removed_if_text_is_not_enough() {
        let image = Image { mime: "image/png".to_owned(), data: "x".to_owned() };
        let images = ToolResult { images: vec![image.clone(), image], ..result("two images") };
        let mut messages = [Message::Tools(vec![images])];
        assert!(shorten(&mut messages, 1_000) >= 1_000);
        let left: Vec<_> = results(&mut messages).map(|result| result.images.len()).collect();
        assert_eq!(left, [1]);
    }
}
