//! The agent of the demonstration: tells a story word by word, and keeps nothing. If the prompt contains the beginning of the
//! story, it goes on after that.

use std::io::{BufRead, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;

/// What the agent tells.
pub(super) const STORY: &str = "Most agents send their answer to the editor word by word. If the editor or the agent \
     crashes, the rest of the answer is lost, and often the whole conversation. Rethread writes every word to a journal \
     before it is shown. After a crash, the session is loaded from the journal up to the last word that was shown, and \
     the agent continues from there.";

/// The time between two words.
const PACE: Duration = Duration::from_millis(60);

/// Serves a client on stdin and stdout.
pub(super) fn run() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {}}),
            Some("session/new") => json!({"sessionId": "story"}),
            Some("session/prompt") => {
                let told = told_words(&request["params"]["prompt"].to_string());
                for word in STORY.split_inclusive(' ').skip(told) {
                    say(&mut out, word)?;
                    std::thread::sleep(PACE);
                }
                json!({"stopReason": "end_turn"})
            }
            Some(_) | None => continue,
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))?;
        out.flush()?;
    }
    Ok(())
}

fn say(out: &mut impl Write, word: &str) -> Result<(), Failure> {
    let content = json!({"type": "text", "text": word});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    let params = json!({"sessionId": "story", "update": update});
    writeln!(out, "{}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))?;
    Ok(out.flush()?)
}

/// How many words of the story a text contains, from its beginning on.
fn told_words(text: &str) -> usize {
    let ends = STORY.split_inclusive(' ').scan(0, |end, word| {
        *end += word.len();
        Some(*end)
    });
    let told = ends.take_while(|end| text.contains(STORY[..*end].trim_end()));
    told.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_goes_on_after_what_was_told() {
        assert_eq!(told_words("Tell me a story."), 0);
        assert_eq!(told_words("so far:\n\nMost agents send\n\nGo on."), 3);
        assert_eq!(told_words(STORY), STORY.split(' ').count());
    }
}
