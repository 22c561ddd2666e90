//! The types of ids: sessions, messages, turns, entries, questions, requests. An id that a peer chose is kept as it came; new ids are
//! made outside this crate.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

text_id!(
    /// Names a session towards every client, for ever.
    SessionId
);
text_id!(
    /// Names one message of a session.
    MessageId
);
text_id!(
    /// Names a question that the agent put to the user: a permission or an elicitation.
    QuestionId
);
text_id!(
    /// Names one request for the agent that is not a prompt.
    AskId
);

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// The position of an entry in its session's journal. The first entry has 1; 0 is before everything.
    Seq
);
number_id!(
    /// Counts the turns of a session from 1.
    TurnNo
);
