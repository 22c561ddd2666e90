//! Exports a session in pieces: a task writes it, and waits until a piece is taken.

use std::sync::Arc;

use rethread_core::SessionId;
use tokio::sync::mpsc;

use crate::secret::{Redaction, SecretFinder};
use crate::session_file::{ExportRedaction, SessionLines, UnfinishedTurn};
use crate::store::{SessionRow, Store, StoreError};
use crate::transcript::{SessionOutline, TextFormat, TurnReader};

/// What a session is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportForm {
    /// Lines that can be imported.
    Lines,
    /// A text for people.
    Text(TextFormat),
}

/// A piece of an export.
pub(crate) struct ExportPiece {
    /// The text.
    pub(crate) text: String,
    /// Whether it is the last one.
    pub(crate) is_last: bool,
}

/// An export under way. It ends when this is dropped.
pub(crate) struct SessionExport {
    pieces: mpsc::Receiver<Result<ExportPiece, StoreError>>,
}

impl SessionExport {
    /// Begins to write a session, in pieces of about this many bytes.
    pub(crate) fn begin(
        store: Arc<dyn Store>,
        row: SessionRow,
        form: ExportForm,
        redaction: Redaction,
        unfinished: UnfinishedTurn,
        piece: usize,
    ) -> Self {
        let (to, pieces) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut out = PieceWriter { to, text: String::new(), piece };
            let mut finder = SecretFinder::default();
            let finder = match redaction {
                Redaction::Secrets => Some(&mut finder),
                Redaction::Off => None,
            };
            let written = match form {
                ExportForm::Lines => write_lines(store.as_ref(), &row, finder, unfinished, &mut out).await,
                ExportForm::Text(format) => {
                    write_text(store.as_ref(), &row, format, finder, unfinished, &mut out).await
                }
            };
            let last = match written {
                Ok(()) => Ok(ExportPiece { text: out.text, is_last: true }),
                Err(Unwritten::Store(error)) => Err(error),
                Err(Unwritten::NobodyReads) => return,
            };
            let _ = out.to.send(last).await;
        });
        Self { pieces }
    }

    /// The next piece; nothing after the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<ExportPiece, StoreError>> {
        self.pieces.recv().await
    }
}

/// Why an export was not written.
enum Unwritten {
    Store(StoreError),
    NobodyReads,
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Passes on text in pieces.
struct PieceWriter {
    to: mpsc::Sender<Result<ExportPiece, StoreError>>,
    text: String,
    piece: usize,
}

impl PieceWriter {
    async fn write(&mut self, text: &str) -> Result<(), Unwritten> {
        self.text += text;
        while self.text.len() > self.piece {
            // A limit below the length of a character must not stop it.
            let cut = self.text.floor_char_boundary(self.piece).max(self.text.ceil_char_boundary(1));
            let rest = self.text.split_off(cut);
            let text = std::mem::replace(&mut self.text, rest);
            let sent = self.to.send(Ok(ExportPiece { text, is_last: false })).await;
            sent.map_err(|_| Unwritten::NobodyReads)?;
        }
        Ok(())
    }
}

async fn write_lines(
    store: &dyn Store,
    row: &SessionRow,
    finder: Option<&mut SecretFinder>,
    unfinished: UnfinishedTurn,
    out: &mut PieceWriter,
) -> Result<(), Unwritten> {
    let redaction = finder.map_or(ExportRedaction::Off, ExportRedaction::On);
    let mut lines = SessionLines::new(store, row, redaction).with_unfinished_turn(unfinished);
    while let Some(text) = lines.next().await? {
        out.write(&text).await?;
    }
    Ok(())
}

async fn write_text(
    store: &dyn Store,
    row: &SessionRow,
    format: TextFormat,
    mut finder: Option<&mut SecretFinder>,
    unfinished: UnfinishedTurn,
    out: &mut PieceWriter,
) -> Result<(), Unwritten> {
    let mut outline = SessionOutline::read(store, row).await?;
    finder.iter_mut().for_each(|finder| outline.redact(finder));
    out.write(&format.head(&outline)).await?;
    drop(outline);
    let session: &SessionId = &row.id;
    let mut turns = TurnReader::new(store, session);
    let mut next = turns.next().await?;
    while let Some(mut turn) = next {
        next = turns.next().await?;
        // The last one has no end if it still runs.
        match unfinished {
            UnfinishedTurn::WithoutAgent if next.is_none() && turn.end.is_none() => {
                turn.items.retain(|item| !item.is_said_by_agent());
            }
            UnfinishedTurn::Whole | UnfinishedTurn::WithoutAgent => {}
        }
        finder.iter_mut().for_each(|finder| turn.redact(finder));
        out.write(&format.turn(&turn)).await?;
    }
    out.write(&format.foot(turns.damage())).await
}
