//! The conversation of a session as Markdown, for `/export`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rethread::client::SessionEvent;
use rethread::client::view::{SessionView, ViewItem};
use rethread::store::Store;
use rethread_core::{Entry, Seq, SessionId, Subject};

use crate::failure::{ExitCode, Failure};
use crate::output::ids::short_ids;

/// How many bytes of the journal are read at a time.
const PAGE_BYTES: usize = 1024 * 1024;

/// Writes a session to a file and returns its path.
pub(crate) async fn export(
    store: &dyn Store,
    session: &SessionId,
    cwd: &Path,
    file: Option<&str>,
) -> Result<PathBuf, Failure> {
    let view = read_view(store, session).await?;
    let short = short_ids(&[session.as_str()])[0];
    let row = store.find(session).await?;
    let title = row.and_then(|row| row.title).map(|(title, _)| title).filter(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| format!("Session {short}"));
    let path = cwd.join(file.map_or_else(|| format!("rethread-{short}.md"), str::to_owned));
    write_new(&path, &markdown(&view, &title))?;
    Ok(path)
}

/// Writes a file that does not exist. Conversations are private.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            return Failure::new(ExitCode::Refused, format!("{} exists", path.display()))
                .hint("name another file: /export FILE");
        }
        Failure::plain(&format!("writing {} failed: {error}", path.display()))
    })
}

async fn read_view(store: &dyn Store, session: &SessionId) -> Result<SessionView, Failure> {
    let (mut view, mut next) = (SessionView::default(), Seq(0));
    loop {
        let page = store.read(session, next, PAGE_BYTES).await?;
        for item in page.decode()? {
            if let Entry::PromptInserted { content, .. } = item.entry {
                view.apply(&SessionEvent::Prompted { content });
            } else if let Entry::Updated { update, .. } = item.entry {
                view.apply(&SessionEvent::Updated(update));
            }
        }
        if page.end {
            return Ok(view);
        }
        next = page.next;
    }
}

fn markdown(view: &SessionView, title: &str) -> String {
    let parts = view.items().iter().filter_map(section);
    std::iter::once(format!("# {title}\n")).chain(parts).collect::<Vec<_>>().join("\n")
}

fn section(item: &ViewItem) -> Option<String> {
    let text = item.text();
    match item.subject {
        Subject::UserMessage => Some(format!("## You\n\n{}\n", text.trim())),
        Subject::AgentMessage => Some(format!("{}\n", text.trim())),
        Subject::Thought => {
            let quoted: String = text.trim().lines().map(|line| format!("> {line}\n")).collect();
            Some(quoted)
        }
        Subject::ToolCall => {
            let title = item.title().unwrap_or("tool call").replace('\n', " ");
            Some(format!("- **{title}** ({})\n", item.status().unwrap_or("pending")))
        }
        Subject::Plan => {
            let steps: String = item
                .plan_steps()
                .iter()
                .map(|step| {
                    format!("- [{}] {}\n", if step.status == "completed" { "x" } else { " " }, step.content)
                })
                .collect();
            Some(steps)
        }
        Subject::Terminal
        | Subject::Compaction
        | Subject::Commands
        | Subject::Options
        | Subject::SessionInfo
        | Subject::Usage
        | Subject::Notice
        | Subject::Other => None,
    }
}
