//! `rethread demo`: kills a real `rethread acp` in the middle of an answer and loads the session in another one. Only
//! the agent's text is scripted.

mod agent;
mod client;
mod page;

use std::path::Path;

use crate::failure::Failure;
use crate::output::target::Paint;

use agent::STORY;
use client::DemoClient;
use page::DemoPage;

/// How many words are shown before the kill: the middle of a sentence.
const WORDS_BEFORE_KILL: usize = 35;

/// Runs the demonstration in a temporary folder.
pub(crate) fn run() -> Result<(), Failure> {
    let home = std::env::temp_dir().join(format!("rethread-demo-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let outcome = show(&home);
    std::fs::remove_dir_all(&home)?;
    outcome
}

/// Runs the agent of the demonstration.
pub(crate) fn run_agent() -> Result<(), Failure> {
    agent::run()
}

fn show(home: &Path) -> Result<(), Failure> {
    let mut page = DemoPage::new();
    page.heading("1. An agent answers through `rethread acp`.")?;
    let mut first = DemoClient::start(home)?;
    let session = first.new_session()?;
    first.prompt(&session, "Tell me a story.")?;
    page.begin_text()?;
    let mut shown = String::new();
    while shown.split_whitespace().count() < WORDS_BEFORE_KILL {
        let words = first.words()?;
        page.words(&words, Paint::Normal)?;
        shown.push_str(&words);
    }
    first.kill()?;
    page.heading("2. kill -9: Rethread and the agent are gone, in the middle of a sentence.")?;
    let mut second = DemoClient::start(home)?;
    let restored = second.load(&session)?;
    if !restored.starts_with(&shown) {
        return Err(Failure::plain("the demonstration failed: words that were shown are missing"));
    }
    let count = restored.split_whitespace().count();
    page.heading(&format!(
        "3. Another `rethread acp` loads the session. All {count} words are there, and the agent, which keeps nothing itself, \
         is given the transcript and goes on at the next word."
    ))?;
    page.begin_text()?;
    page.words(&restored, Paint::Dim)?;
    second.prompt(&session, "Go on.")?;
    let mut story = restored;
    second.until_answer(|words| {
        story.push_str(words);
        page.words(words, Paint::Normal)
    })?;
    second.leave()?;
    if story != STORY {
        return Err(Failure::plain("the demonstration failed: the story did not go on where it stopped"));
    }
    page.end(&[
        ("Talk to an agent:         ", "rethread chat -- codex-acp"),
        ("Keep your editor's agents:", "rethread acp -- codex-acp"),
    ])
}
