//! The stored form of a segment: compressed, with its length and a checksum, so that damage is detected; and which items
//! share a segment. Independent of the kind of store.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use rethread_core::stored::{SegmentItems, StoredError};
use rethread_core::{Entry, Folded, Seq, fold, stored};
use zstd::bulk::Decompressor;

use super::page;

/// The approximate size of the entries that one segment is made of, since readers decompress a whole segment.
pub(super) const WINDOW_BYTES: usize = 2 * 1024 * 1024;

/// The approximate size of joined segments, since a replay waits for one at a time.
const JOINED_BYTES: usize = 128 * 1024;

/// Fast compression, since folding runs while sessions are in use.
const COMPRESSION_LEVEL: i32 = 1;

/// A compressed segment as stored in its row.
pub(super) struct Packed {
    /// The uncompressed length.
    pub(super) length: i64,
    /// The checksum of the compressed bytes.
    pub(super) checksum: i64,
    pub(super) bytes: Vec<u8>,
}

/// Why a segment cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    /// The bytes have changed.
    #[error("the checksum of a segment is wrong")]
    Checksum,
    /// The length does not match.
    #[error("the length of a segment is wrong")]
    Length,
    /// The compressed data is invalid.
    #[error("a segment cannot be decompressed")]
    Compression(#[source] io::Error),
}

/// A segment to be stored.
pub(super) struct NewSegment {
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) packed: Packed,
}

/// Makes segments of the first entries of a session, which follow `head`. Finished turns are folded.
pub(super) fn first_segments(head: Seq, entries: &[Arc<Entry>]) -> io::Result<Vec<NewSegment>> {
    let items: Vec<_> = (head.0 + 1..).map(Seq).zip(entries).map(|(seq, entry)| single(seq, entry)).collect();
    let ended = items.iter().rposition(|item| matches!(item.entry, Entry::TurnEnded { .. }));
    let (finished, open) = items.split_at(ended.map_or(0, |at| at + 1));
    let mut folded = fold(finished);
    folded.extend_from_slice(open);
    let mut segments = Vec::new();
    let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(segments) };
    let (mut start, mut from, mut bytes) = (0, first.first, 0);
    // A segment ends where the next item begins.
    for end in 1..=folded.len() {
        bytes += size(&folded[end - 1]);
        let upto = folded.get(end).map_or(last.last, |next| Seq(next.first.0 - 1));
        if end == folded.len() || (bytes >= WINDOW_BYTES && upto >= from) {
            let packed = pack_items(&folded[start..end])?;
            segments.push(NewSegment { first: from, last: upto, packed });
            (start, from, bytes) = (end, upto.next(), 0);
        }
    }
    if folded.is_empty() {
        segments.push(NewSegment { first: from, last: last.last, packed: pack_items(&[])? });
    }
    Ok(segments)
}

fn single(seq: Seq, entry: &Arc<Entry>) -> Folded {
    Folded { first: seq, last: seq, entry: entry.as_ref().clone() }
}

fn size(item: &Folded) -> usize {
    let mut bytes = Vec::new();
    stored::write_compact(&item.entry, &mut bytes);
    bytes.len()
}

/// Compresses items.
pub(super) fn pack_items(items: &[Folded]) -> io::Result<Packed> {
    debug_assert!(items.is_sorted_by_key(|item| item.first), "a fold keeps the order");
    pack(&stored::encode_segment(items))
}

/// Decodes the items of a segment that begin at or before an entry.
pub(super) fn items_upto(plain: &[u8], needed: Seq) -> Result<Vec<Folded>, StoredError> {
    let mut kept = Vec::new();
    for item in SegmentItems::of(plain)? {
        let item = item?;
        if item.first <= needed {
            kept.push(item.folded()?);
        }
    }
    Ok(kept)
}

/// Returns whether a segment of this length is joined with one of `before` bytes that precedes it. Much larger ones are not
/// compressed again.
pub(super) fn joins(length: usize, before: i64) -> bool {
    let before = usize::try_from(before).unwrap_or(usize::MAX);
    before / 2 <= length && before.saturating_add(length) <= JOINED_BYTES
}

/// Compresses encoded items.
pub(super) fn pack(plain: &[u8]) -> io::Result<Packed> {
    let bytes = zstd::bulk::compress(plain, COMPRESSION_LEVEL)?;
    let length = i64::try_from(plain.len()).unwrap_or(i64::MAX);
    Ok(Packed { length, checksum: checksum(&bytes), bytes })
}

/// Decompresses encoded items.
pub(super) fn unpack(length: i64, expected: i64, bytes: &[u8]) -> Result<Vec<u8>, SegmentError> {
    if checksum(bytes) != expected {
        return Err(SegmentError::Checksum);
    }
    let length = usize::try_from(length).map_err(|_| SegmentError::Length)?;
    // The compressed data contains its own length; memory is allocated only if both agree.
    if zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten() != Some(length as u64) {
        return Err(SegmentError::Length);
    }
    let plain = decompressed(bytes, length).map_err(SegmentError::Compression)?;
    // The buffer may have more room than that.
    if plain.len() == length { Ok(plain) } else { Err(SegmentError::Length) }
}

thread_local! {
    /// Reused, because making one costs more than decompressing a typical turn.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompressed(bytes: &[u8], length: usize) -> io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        let mut plain = page::buffer(length);
        decompressor.decompress_to_buffer(bytes, &mut plain)?;
        Ok(plain)
    })
}

/// FNV-1a: fast, and sufficient to detect accidental damage.
fn checksum(bytes: &[u8]) -> i64 {
    let mixed = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed.cast_signed()
}
