//! What a person would see of a conversation, the same whatever version it came in.

use std::fmt;

/// A conversation: its things in the order in which they first appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View(Vec<Thing>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Thing {
    kind: &'static str,
    id: String,
    text: String,
}

impl View {
    /// Adds text to a message.
    pub(crate) fn grow(&mut self, kind: &'static str, id: &str, text: &str) {
        self.thing(kind, id).text.push_str(text);
    }

    /// Replaces the text of a thing.
    pub(crate) fn set(&mut self, kind: &'static str, id: &str, text: &str) {
        self.thing(kind, id).text = text.to_owned();
    }

    /// The last thing of a kind.
    pub(crate) fn last(&self, kind: &str) -> Option<&str> {
        self.0.iter().rfind(|thing| thing.kind == kind).map(|thing| thing.text.as_str())
    }

    fn thing(&mut self, kind: &'static str, id: &str) -> &mut Thing {
        let at = self.0.iter().position(|thing| thing.kind == kind && thing.id == id);
        let at = at.unwrap_or_else(|| {
            self.0.push(Thing { kind, id: id.to_owned(), text: String::new() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|thing| writeln!(f, "{}: {}", thing.kind, thing.text))
    }
}

/// The lines that a change takes away and adds.
pub(crate) fn changed(old: &str, new: &str) -> String {
    let minus = old.lines().map(|line| format!("-{line}"));
    let plus = new.lines().map(|line| format!("+{line}"));
    minus.chain(plus).collect::<Vec<_>>().join(" ")
}

/// The same, out of a patch.
pub(crate) fn changed_by(patch: &str) -> String {
    let changes = |line: &&str| {
        (line.starts_with('-') || line.starts_with('+'))
            && !line.starts_with("---")
            && !line.starts_with("+++")
    };
    patch.lines().filter(changes).collect::<Vec<_>>().join(" ")
}
