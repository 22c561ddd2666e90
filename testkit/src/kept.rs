//! Compares what a client had been shown before a crash with what it gets when it loads the session again.

use std::fmt::Write as _;

use rethread::edge::Version;

use crate::client::Client;
use crate::view::{Item, View};

/// What a client was shown by a program that was killed.
#[must_use]
pub fn shown(client: &Client, session: &str) -> View {
    settled(client.view(session), client.version)
}

/// What a client of this version was shown, without a prompt that nobody has accepted.
#[must_use]
pub fn settled(mut shown: View, version: Version) -> View {
    // A v1 client shows its own prompt itself; only a following update proves that it was accepted.
    if version == Version::V1
        && matches!(shown.items.last(), Some(Item::Message { who: "user", id, .. }) if id.0.is_none())
    {
        shown.items.pop();
    }
    shown
}

/// Returns what of the first view is missing in the second. The last item may have grown, and so may a tool call that was not over:
/// it goes on beside what comes after it.
///
/// # Errors
///
/// One line for each item that is missing or changed.
pub fn check(shown: &View, loaded: &View) -> Result<(), String> {
    let mut wrong = String::new();
    for (at, item) in shown.items.iter().enumerate() {
        let open = at + 1 == shown.items.len() || matches!(item, Item::Tool { .. });
        let found = loaded.items.get(at);
        let kept = found.is_some_and(|found| item == found || (open && grew(item, found)));
        if !kept {
            let _ = writeln!(wrong, "{item:?} became {found:?}");
        }
    }
    let gone = |of: bool, what: &str| if of { format!("{what} is gone\n") } else { String::new() };
    wrong += &gone(!shown.plan.is_empty() && shown.plan != loaded.plan, "the plan");
    wrong += &gone(shown.usage.is_some() && shown.usage != loaded.usage, "the usage");
    wrong += &gone(shown.title.is_some() && shown.title != loaded.title, "the title");
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Every prompt is there once, and so is every chunk of a text.
///
/// # Errors
///
/// The first that is not.
pub fn nothing_is_doubled(view: &View) -> Result<(), String> {
    let user = view.user();
    if let Some(twice) = user.iter().enumerate().find(|(at, text)| user[..*at].contains(text)) {
        return Err(format!("the prompt {:?} is there twice", twice.1));
    }
    for text in view.agent().iter().filter(|text| text.starts_with("c1")) {
        let counted = text.split_whitespace().enumerate().all(|(at, word)| word == format!("c{}", at + 1));
        if !counted {
            return Err(format!("the chunks are not in order: {text}"));
        }
    }
    Ok(())
}

fn grew(shown: &Item, loaded: &Item) -> bool {
    match (shown, loaded) {
        (Item::Message { who, id, text }, Item::Message { who: whose, id: name, text: whole }) => {
            who == whose && id == name && whole.starts_with(text.as_str())
        }
        (
            Item::Tool { id, title, status, content },
            Item::Tool { id: name, title: called, content: whole, .. },
        ) => {
            let over = matches!(status.as_str(), "completed" | "failed" | "cancelled");
            !over && id == name && title == called && whole.starts_with(content)
        }
        (Item::Message { .. } | Item::Tool { .. } | Item::Other(_), _) => false,
    }
}
