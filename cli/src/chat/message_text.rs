//! Tells which text of a message is new. Most messages grow; a few are replaced by another text.

use rethread::client::view::ViewItem;
use rethread_core::Subject;

/// The message that is being shown, and what was shown of it.
#[derive(Debug, Default)]
pub(crate) struct MessageText {
    shown: Option<(Subject, String, String)>,
}

/// The new text of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NewText {
    /// It goes on.
    More(String),
    /// Another message begins, or this one is replaced.
    Anew(String),
}

impl MessageText {
    /// Takes a text that was appended to a message.
    pub(crate) fn appended(&mut self, item: &ViewItem, text: &str) -> NewText {
        match &mut self.shown {
            Some((subject, id, shown)) if *subject == item.subject && *id == item.id => {
                shown.push_str(text);
                NewText::More(text.to_owned())
            }
            Some(_) | None => self.begin(item, text),
        }
    }

    /// Takes a message as it is now.
    pub(crate) fn whole(&mut self, item: &ViewItem) -> NewText {
        let text = item.text();
        if let Some((subject, id, shown)) = &mut self.shown
            && (*subject, id.as_str()) == (item.subject, item.id.as_str())
            && let Some(more) = text.strip_prefix(shown.as_str())
        {
            let more = more.to_owned();
            *shown = text;
            return NewText::More(more);
        }
        self.begin(item, &text)
    }

    /// Forgets the message: whatever comes next begins a new one.
    pub(crate) fn end(&mut self) {
        self.shown = None;
    }

    fn begin(&mut self, item: &ViewItem, text: &str) -> NewText {
        self.shown = Some((item.subject, item.id.clone(), text.to_owned()));
        NewText::Anew(text.to_owned())
    }
}
