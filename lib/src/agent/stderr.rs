//! Reads an agent's stderr on a thread: keeps its last lines for messages, and appends it to a log file of limited
//! size.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::secret::Secrets;

const TAIL_BYTES: usize = 4 * 1024;
const TAIL_LINES: usize = 20;
/// The longest line that is searched for secrets as a whole.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// The size at which a log file is rotated.
const LOG_BYTES: u64 = 4 * 1024 * 1024;

/// The stderr of one agent as far as it has been read.
#[derive(Debug)]
pub struct AgentStderr {
    tail: Arc<Mutex<StderrTail>>,
    secrets: Arc<StderrSecrets>,
    /// Never receives anything; closes when everything has been read.
    open: mpsc::Receiver<()>,
}

impl AgentStderr {
    /// Starts reading, without the secrets of this agent. A plain thread, because the log may be on a slow disk and no task
    /// should wait for it.
    pub fn read(from: PipeReader, log: Option<StderrLog>, own: Secrets) -> io::Result<AgentStderr> {
        let tail = Arc::new(Mutex::new(StderrTail::default()));
        let (closing, open) = mpsc::channel(1);
        let secrets = Arc::new(StderrSecrets { own, of_host: OnceLock::new() });
        let mut sink = StderrSink {
            log,
            tail: Arc::clone(&tail),
            secrets: Arc::clone(&secrets),
            unfinished: Vec::new(),
        };
        std::thread::Builder::new().name("agent-stderr".into()).spawn(move || {
            pump(from, &mut sink);
            drop(closing);
        })?;
        Ok(AgentStderr { tail, secrets, open })
    }

    /// Removes these secrets from the log and the tail from now on. Must be called once.
    pub(crate) fn redact_with(&self, secrets: &Secrets) {
        let _ = self.secrets.of_host.set(secrets.clone());
    }

    /// Returns the last lines after everything has been read or the limit has passed: a remaining process may keep
    /// stderr open.
    pub async fn settled_tail(&mut self, limit: Duration) -> String {
        let _ = tokio::time::timeout(limit, self.open.recv()).await;
        let text = self.tail.lock().unwrap_or_else(PoisonError::into_inner).text();
        // A secret may have been added after it was printed.
        self.secrets.redact(&text)
    }
}

/// The secrets that are removed: those of the agent from its first word on, those of the host once they are known.
#[derive(Debug)]
struct StderrSecrets {
    own: Secrets,
    of_host: OnceLock<Secrets>,
}

impl StderrSecrets {
    fn redact(&self, text: &str) -> String {
        let text = self.own.redact(text);
        self.of_host.get().map_or_else(|| text.clone(), |secrets| secrets.redact(&text))
    }

    /// The length of the longest one; nothing if there cannot be any.
    fn longest(&self) -> Option<usize> {
        let own = Some(self.own.longest()).filter(|length| *length > 0);
        own.max(self.of_host.get().map(Secrets::longest))
    }
}

/// A log file of limited size; the previous one is kept as `<name>.old`.
#[derive(Debug)]
pub struct StderrLog {
    path: PathBuf,
    file: File,
    bound: u64,
}

impl StderrLog {
    /// Opens or creates the log, readable only by its owner since agents print secrets.
    pub(super) fn open(path: &Path) -> io::Result<StderrLog> {
        Ok(StderrLog { path: path.to_owned(), file: open_log(path)?, bound: LOG_BYTES })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_full()? {
            // Another process with the same log may have rotated it already.
            self.file = open_log(&self.path)?;
            if self.is_full()? {
                std::fs::rename(&self.path, old_name(&self.path))?;
                self.file = open_log(&self.path)?;
            }
        }
        self.file.write_all(bytes)
    }

    fn is_full(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() >= self.bound)
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    bytes: VecDeque<u8>,
}

impl StderrTail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.bytes.len() + last.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..surplus);
        self.bytes.extend(last);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        let bytes = [front, back].concat();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

/// The destinations of what is read.
struct StderrSink {
    log: Option<StderrLog>,
    tail: Arc<Mutex<StderrTail>>,
    secrets: Arc<StderrSecrets>,
    /// An incomplete line, held back so that no secret is split.
    unfinished: Vec<u8>,
}

impl StderrSink {
    fn take(&mut self, bytes: &[u8]) {
        let Some(longest) = self.secrets.longest() else { return self.write_rest(bytes) };
        self.unfinished.extend_from_slice(bytes);
        let whole = match self.unfinished.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // An endless line is not kept, except for as much as may be part of a secret.
            None if self.unfinished.len() > MAX_LINE_BYTES => {
                self.unfinished = redacted(&self.secrets, std::mem::take(&mut self.unfinished));
                self.unfinished.len().saturating_sub(longest)
            }
            None => 0,
        };
        let said: Vec<u8> = self.unfinished.drain(..whole).collect();
        self.write(&redacted(&self.secrets, said));
    }

    /// Writes what was held back, then these bytes.
    fn write_rest(&mut self, bytes: &[u8]) {
        let mut said = std::mem::take(&mut self.unfinished);
        said.extend_from_slice(bytes);
        self.write(&redacted(&self.secrets, said));
    }

    /// A log that fails is closed: an agent must never block on its stderr because of it.
    fn write(&mut self, bytes: &[u8]) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        if self.log.as_mut().is_some_and(|log| log.append(bytes).is_err()) {
            self.log = None;
        }
    }
}

/// Removes secrets; returns the bytes unchanged if there are none.
fn redacted(secrets: &StderrSecrets, bytes: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&bytes);
    let redacted = secrets.redact(&text);
    if redacted == text { bytes } else { redacted.into_bytes() }
}

/// Reads to the end.
fn pump(mut from: PipeReader, sink: &mut StderrSink) {
    let mut buffer = [0; 8 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => sink.take(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    sink.write_rest(&[]);
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn old_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn tail(parts: &[&[u8]]) -> String {
        let mut tail = StderrTail::default();
        for part in parts {
            tail.push(part);
        }
        tail.text()
    }

    #[test]
    fn a_tail_has_the_last_lines() {
        let lines: Vec<String> = (1..=30).map(|n| format!("line {n}\n")).collect();
        let parts: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        let text = tail(&parts);
        assert_eq!(text.lines().count(), TAIL_LINES);
        assert!(text.starts_with("line 11\n") && text.ends_with("line 30"), "{text}");
    }

    #[test]
    fn a_tail_has_the_last_bytes() {
        assert_eq!(tail(&[&[b'a'; 3 * TAIL_BYTES], b"end\n"]).len(), TAIL_BYTES - 1);
        assert_eq!(tail(&[&[b'a'; TAIL_BYTES], &[b'b'; TAIL_BYTES]]), "b".repeat(TAIL_BYTES));
        assert_eq!(tail(&[b"broken \xff text", b"\n"]), "broken \u{fffd} text");
        assert_eq!(tail(&[]), "");
    }

    #[test]
    fn a_log_is_private_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.log");
        let mut log = StderrLog { bound: 10, ..StderrLog::open(&path).unwrap() };
        for _ in 0..5 {
            log.append(b"123456").unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"123456");
        assert_eq!(std::fs::read(old_name(&path)).unwrap(), b"123456123456");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn secrets_are_redacted_across_read_boundaries() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.log");
        let (read, mut write) = io::pipe().unwrap();
        let mut stderr =
            AgentStderr::read(read, Some(StderrLog::open(&path).unwrap()), Secrets::default()).unwrap();
        let secrets = Secrets::default();
        stderr.redact_with(&secrets);
        let server = serde_json::json!({"env": [{"name": "TOKEN", "value": "hunter2-hunter2"}]});
        secrets.add_servers(&[rethread_core::Json::from(server).fields()]);
        // Across reads, at the end without a newline, and across the limit of an endless line.
        for part in [
            "one hunter2-",
            "hunter2 two\n",
            &"x".repeat(MAX_LINE_BYTES - 7),
            "hunter2-hunter2 ",
            "\nhunter2-hunter2",
        ] {
            write.write_all(part.as_bytes()).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(write);
        let tail = stderr.settled_tail(Duration::from_secs(10)).await;
        let log = std::fs::read_to_string(&path).unwrap();
        for text in [tail, log] {
            assert!(text.ends_with("[secret]") && !text.contains("hunter2"), "{text}");
        }
    }

    #[tokio::test]
    async fn everything_is_read_before_the_tail_is_returned() {
        let (read, mut write) = io::pipe().unwrap();
        let mut stderr = AgentStderr::read(read, None, Secrets::default()).unwrap();
        write.write_all(b"one\ntwo\n").unwrap();
        drop(write);
        assert_eq!(stderr.settled_tail(Duration::from_secs(10)).await, "one\ntwo");
        assert_eq!(stderr.settled_tail(Duration::from_secs(10)).await, "one\ntwo");
    }
}
