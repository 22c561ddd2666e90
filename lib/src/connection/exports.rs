//! The exports of a client that are under way. A cursor names one and the piece that comes next.

use std::collections::VecDeque;
use std::sync::Arc;

use rethread_core::{Json, SessionId};
use serde_json::json;
use tokio::sync::Mutex;

use super::reading::read_error;
use crate::edge::reading_request::{ExportFormatParam, ExportParams};
use crate::reading::{ExportForm, SessionExport, UnfinishedTurn};
use crate::registry::Registry;
use crate::secret::Redaction;
use crate::store::Store;
use crate::transcript::TextFormat;
use crate::wire::RpcError;

/// How many exports of a client are kept. The oldest ends when another one begins.
const MAX_EXPORTS: usize = 4;

/// About how large a piece is.
const PIECE: usize = 1024 * 1024;

/// In an answer a byte of text takes at most this many: `\u0000`.
const ESCAPED: usize = 6;

/// The exports under way.
#[derive(Default)]
pub(super) struct Exports {
    open: Mutex<OpenExports>,
}

#[derive(Default)]
struct OpenExports {
    begun: u64,
    exports: VecDeque<(u64, Arc<Mutex<OpenExport>>)>,
}

struct OpenExport {
    export: SessionExport,
    session: SessionId,
    /// The number of the next piece.
    next: u64,
}

impl Exports {
    /// The first piece of an export, or the next one. Its text takes at most `room` bytes in the answer.
    pub(super) async fn piece(
        &self,
        registry: &Registry,
        store: Arc<dyn Store>,
        params: ExportParams,
        redaction: Redaction,
        room: usize,
    ) -> Result<Json, RpcError> {
        let session = SessionId(params.session.clone());
        let (number, open) = match &params.cursor {
            None => self.begin(registry, store, &params, redaction, room).await?,
            Some(cursor) => {
                let (number, piece) = read_cursor(cursor).ok_or_else(|| wrong_cursor(cursor))?;
                let open = self.find(number).await.ok_or_else(|| wrong_cursor(cursor))?;
                let at = open.lock().await;
                if at.next != piece || at.session != session {
                    return Err(wrong_cursor(cursor));
                }
                drop(at);
                (number, open)
            }
        };
        let mut at = open.lock().await;
        let piece = match at.export.next().await {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Err(read_error(&error)),
            None => return Err(RpcError::internal("the export ended before its last piece")),
        };
        at.next += 1;
        if piece.is_last {
            self.open.lock().await.exports.retain(|(open, _)| *open != number);
            return Ok(json!({"text": piece.text}).into());
        }
        Ok(json!({"text": piece.text, "nextCursor": format!("{number}.{}", at.next)}).into())
    }

    async fn begin(
        &self,
        registry: &Registry,
        store: Arc<dyn Store>,
        params: &ExportParams,
        client: Redaction,
        room: usize,
    ) -> Result<(u64, Arc<Mutex<OpenExport>>), RpcError> {
        let session = SessionId(params.session.clone());
        let row = registry.row(&session).await?;
        let form = match params.format {
            ExportFormatParam::Lines => ExportForm::Lines,
            ExportFormatParam::Markdown => ExportForm::Text(TextFormat::Markdown),
            ExportFormatParam::Html => ExportForm::Text(TextFormat::Html),
        };
        // As on the command line: what is made to be passed on has no secrets, unless they are wanted.
        let redact = params.redact.unwrap_or(params.format == ExportFormatParam::Html);
        let (redaction, unfinished) = match client {
            Redaction::Secrets => (Redaction::Secrets, UnfinishedTurn::WithoutAgent),
            Redaction::Off if redact => (Redaction::Secrets, UnfinishedTurn::Whole),
            Redaction::Off => (Redaction::Off, UnfinishedTurn::Whole),
        };
        let size = PIECE.min(room / ESCAPED);
        let export = SessionExport::begin(store, row, form, redaction, unfinished, size);
        let export = Arc::new(Mutex::new(OpenExport { export, session, next: 0 }));
        let mut open = self.open.lock().await;
        open.begun += 1;
        let number = open.begun;
        open.exports.push_back((number, export.clone()));
        if open.exports.len() > MAX_EXPORTS {
            open.exports.pop_front();
        }
        Ok((number, export))
    }

    async fn find(&self, number: u64) -> Option<Arc<Mutex<OpenExport>>> {
        let open = self.open.lock().await;
        open.exports.iter().find(|(open, _)| *open == number).map(|(_, export)| export.clone())
    }
}

fn read_cursor(cursor: &str) -> Option<(u64, u64)> {
    let (number, piece) = cursor.split_once('.')?;
    Some((number.parse().ok()?, piece.parse().ok()?))
}

fn wrong_cursor(cursor: &str) -> RpcError {
    let shown: String = cursor.chars().take(100).collect();
    RpcError::field("cursor", &json!(shown), "the cursor that the previous piece came with")
        .hint("start again without a cursor")
}
