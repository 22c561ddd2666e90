//! `rethread chat`: a conversation with an agent in a terminal, or one prompt without a terminal. The agent runs behind the
//! running server, or else behind one in this process, so that everything is stored; this is a client of it like any other.

pub(crate) mod agent;
mod attachments;
mod background;
mod completion;
mod connection;
mod diff;
mod export;
mod folded;
mod form;
mod input;
mod json_lines;
mod keys;
mod login;
mod message_text;
mod notes;
mod opening;
mod opening_screen;
mod permission;
pub(crate) mod plain;
mod question;
mod run_command;
mod screen;
mod slash;
mod talk;
mod tool_call;
mod transcript;
#[cfg(test)]
mod transcript_tests;
mod turn;

pub(crate) use connection::{ChatServer, Connect, Connected, Conversation, failure};
pub(crate) use keys::QuietKeyboard;
pub(crate) use login::{LoginPolicy, login_required};
pub(crate) use opening::{ChatSession, Opened};
pub(crate) use opening_screen::OpeningScreen;
pub(crate) use permission::PermissionPolicy;
pub(crate) use talk::{ChatEnd, SaidAnything, TalkSetup, TerminalChat};
