//! What became of the sessions of other tools: counts for people, with what needs attention below; all of it for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rethread::importer::{Found, ReadNotes, SourceOutcome, ToolInfo, Unreadable};
use serde_json::{Value, json};

use super::{SourceLine, outcome_word};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;

/// How many sessions of one kind are listed for people.
const MAX_LISTED: usize = 20;

/// What became of the sessions of one tool.
pub(crate) struct ToolReport {
    tool: &'static ToolInfo,
    found: usize,
    unreadable: Vec<Unreadable>,
    counts: BTreeMap<&'static str, usize>,
    /// Turns that are new here.
    turns: u64,
    /// What is not as it was.
    changed: Vec<SourceLine>,
    notes: ReadNotes,
}

impl ToolReport {
    pub(super) fn new(tool: &'static ToolInfo, found: &Found) -> Self {
        let (counts, notes) = (BTreeMap::new(), ReadNotes::default());
        let unreadable = found.unreadable.clone();
        Self { tool, found: found.sources.len(), unreadable, counts, turns: 0, changed: Vec::new(), notes }
    }

    pub(super) fn title(&self) -> &'static str {
        self.tool.title
    }

    pub(super) fn add(&mut self, mut line: SourceLine) {
        let word = match &mut line.outcome {
            Ok(report) => {
                self.notes.add(std::mem::take(&mut report.notes));
                if let SourceOutcome::Imported(turns) | SourceOutcome::Grown(turns) = report.outcome {
                    self.turns += turns;
                }
                outcome_word(&report.outcome)
            }
            Err(_) => "failed",
        };
        *self.counts.entry(word).or_default() += 1;
        if word != "unchanged" {
            self.changed.push(line);
        }
    }

    fn count(&self, word: &str) -> usize {
        self.counts.get(word).copied().unwrap_or_default()
    }

    fn failed(&self) -> usize {
        self.count("failed") + self.unreadable.len()
    }

    /// `Claude Code: imported 12 sessions (48 turns); 3 unchanged`.
    fn summary(&self) -> String {
        let title = self.tool.title;
        if self.found == 0 {
            return format!("{title}: no sessions found.\n");
        }
        let mut parts = Vec::new();
        let turns = plural(self.turns, "new turn");
        match (self.count("imported"), self.count("grown")) {
            (0, 0) => parts.push("nothing new".to_owned()),
            (0, grown) => parts.push(format!("{} continued ({turns})", plural(grown as u64, "session"))),
            (new, 0) => parts.push(format!("imported {} ({turns})", plural(new as u64, "session"))),
            (new, grown) => {
                parts
                    .push(format!("imported {}, continued {grown} ({turns})", plural(new as u64, "session")));
            }
        }
        let others = [
            ("unchanged", "unchanged"),
            ("alreadyHere", "here already"),
            ("inProgress", "at work in their first turn"),
            ("deletedHere", "deleted here"),
            ("empty", "without a conversation"),
        ];
        for (word, words) in others {
            match self.count(word) {
                0 => {}
                count => parts.push(format!("{count} {words}")),
            }
        }
        format!("{title}: {}.\n", parts.join("; "))
    }

    /// The sessions that stay as they are although their sources have changed.
    fn kept(&self) -> String {
        let mut text = String::new();
        let why = [
            ("diverged", "had turns here since they were imported, or are open, and stay as they are"),
            ("rewritten", "were rewound or written anew by the tool, and stay as they were imported"),
        ];
        for (word, why) in why {
            let ids: Vec<_> = self.changed.iter().filter_map(|line| id_of(line, word)).collect();
            if ids.is_empty() {
                continue;
            }
            let _ = writeln!(text, "  {} {why}:", ids.len());
            for id in ids.iter().take(MAX_LISTED) {
                let _ = writeln!(text, "    {}", visible(id));
            }
            if ids.len() > MAX_LISTED {
                let _ = writeln!(text, "    and {} more", ids.len() - MAX_LISTED);
            }
            let _ = writeln!(text, "  hint: --as-new imports copies under new ids");
        }
        text
    }

    /// Says on stderr what was skipped and what could not be read.
    fn warn(&self) {
        for Unreadable { path, reason } in &self.unreadable {
            eprintln!("warning: {} cannot be read: {}", visible(&path.to_string_lossy()), visible(reason));
        }
        for line in &self.changed {
            if let Err(reason) = &line.outcome {
                eprintln!("warning: {}", visible(reason));
            }
        }
        for place in &self.notes.damaged {
            let path = place.path.to_string_lossy();
            eprintln!("warning: {}:{} was skipped: {}", visible(&path), place.line, visible(&place.reason));
        }
        let listed = self.notes.damaged.len() as u64;
        if self.notes.damage_count > listed {
            eprintln!("warning: {} more lines were skipped", self.notes.damage_count - listed);
        }
        let unknown = self.notes.drift.len();
        if unknown > 0 {
            let things = plural(unknown as u64, "unknown kind");
            eprintln!("note: {}: {things} of record or field; `rethread doctor` lists them", self.tool.title);
        }
    }

    fn json(&self) -> Value {
        let session = |line: &SourceLine| {
            let mut session = json!({"path": line.path.to_string_lossy(), "key": line.key});
            match &line.outcome {
                Ok(report) => {
                    session["outcome"] = json!(outcome_word(&report.outcome));
                    session["id"] = json!(report.session);
                    if let SourceOutcome::Imported(turns) | SourceOutcome::Grown(turns) = report.outcome {
                        session["turns"] = json!(turns);
                    }
                }
                Err(reason) => {
                    session["outcome"] = json!("failed");
                    session["reason"] = json!(reason);
                }
            }
            session
        };
        let damaged = self.notes.damaged.iter().map(
            |place| json!({"path": place.path.to_string_lossy(), "line": place.line, "reason": place.reason}),
        );
        let drift = self.notes.drift.iter();
        let drift = drift.map(|((version, what), n)| json!({"version": version, "what": what, "count": n}));
        let unreadable = self.unreadable.iter();
        let unreadable =
            unreadable.map(|item| json!({"path": item.path.to_string_lossy(), "reason": item.reason}));
        json!({
            "tool": self.tool.name,
            "found": self.found,
            "counts": self.counts,
            "turns": self.turns,
            "sessions": self.changed.iter().map(session).collect::<Vec<_>>(),
            "skippedLines": self.notes.damage_count,
            "damaged": damaged.collect::<Vec<_>>(),
            "drift": drift.collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }
}

/// The reports for people; what was skipped is said on stderr. Tools without sessions are left out if others have some.
pub(crate) fn text(reports: &[ToolReport]) -> String {
    reports.iter().for_each(ToolReport::warn);
    let any = reports.iter().any(|report| report.found > 0);
    let shown = reports.iter().filter(|report| report.found > 0 || !any);
    shown.map(|report| report.summary() + &report.kept()).collect()
}

/// The reports for programs.
pub(crate) fn json(reports: &[ToolReport]) -> Value {
    json!({"tools": reports.iter().map(ToolReport::json).collect::<Vec<_>>()})
}

/// The failure of what could not be read. The rest has been imported.
pub(crate) fn failure(reports: &[ToolReport]) -> Result<(), Failure> {
    match reports.iter().map(ToolReport::failed).sum::<usize>() {
        0 => Ok(()),
        1 => Err(Failure::new(ExitCode::Error, "1 file or folder could not be read")),
        failed => Err(Failure::new(ExitCode::Error, format!("{failed} files or folders could not be read"))),
    }
}

fn id_of(line: &SourceLine, word: &str) -> Option<String> {
    let report = line.outcome.as_ref().ok().filter(|report| outcome_word(&report.outcome) == word)?;
    Some(report.session.as_ref()?.to_string())
}

/// A number with its noun.
pub(super) fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
