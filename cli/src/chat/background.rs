//! What happens in a session while the user types: it is printed above the input line, and questions are kept.

use rethread::client::AskedQuestion;

use super::connection::{ChatEvent, Conversation};
use super::input::InputHandle;
use super::turn::ChatScreen;
use crate::failure::Failure;

/// Handles what happens while the user types.
pub(super) fn happened(
    chat: &mut Conversation,
    shown: &mut ChatScreen,
    questions: &mut Vec<AskedQuestion>,
    event: ChatEvent,
    background: &mut String,
) -> Result<(), Failure> {
    match event {
        ChatEvent::Happened(session, event) => {
            if let Some(change) = chat.apply(&session, &event) {
                let text = shown.transcript.change(&chat.view, &change);
                background_text(shown, background, &text);
            }
            let view = &chat.view;
            questions.retain(|question| view.questions().iter().any(|open| open.id == question.id));
            Ok(())
        }
        ChatEvent::Asked(question) => {
            questions.push(question);
            Ok(())
        }
        ChatEvent::Ended(reason) => Err(Failure::plain(&reason)),
    }
}

/// Adds a text that is printed above the input line.
pub(super) fn background_text(shown: &mut ChatScreen, background: &mut String, text: &str) {
    if !text.is_empty() {
        background.push_str(text);
        background.push('\n');
        shown.transcript.set_apart();
    }
}

/// Prints above the input line what waits for it.
pub(super) fn print_above(handle: &InputHandle, background: &mut String) {
    if !background.is_empty()
        && let Err(text) = handle.print(std::mem::take(background))
    {
        // Printed with what comes next.
        *background = text;
    }
}
