//! The stored form of a folded stretch: compressed, with its length and a checksum, so that damage is found
//! before it is shown to anyone. Which stretches share a segment is `fold`'s business.

use std::cell::{Cell, RefCell};

use rethread_core::stored;
use zstd::bulk::Decompressor;

/// Speed counts here, not the last byte: folding happens while somebody works.
const LEVEL: i32 = 1;

/// A segment as it lies in its row.
pub(super) struct Packed {
    /// The length before compression.
    pub(super) length: i64,
    /// Over the compressed bytes.
    pub(super) checksum: i64,
    /// The compressed bytes.
    pub(super) bytes: Vec<u8>,
}

/// What is wrong with a segment.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    /// Bytes have changed.
    #[error("the checksum of a segment is wrong")]
    Checksum,
    /// Bytes are missing or too many.
    #[error("the length of a segment is wrong")]
    Length,
    /// The compression is not as it was written.
    #[error("a segment cannot be unpacked")]
    Compression(#[source] std::io::Error),
    /// The items cannot be read.
    #[error("the items of a segment cannot be read")]
    Items(#[source] stored::StoredError),
}

/// Packs the stored form of items.
pub(super) fn pack(plain: &[u8]) -> std::io::Result<Packed> {
    let bytes = zstd::bulk::compress(plain, LEVEL)?;
    let length = i64::try_from(plain.len()).unwrap_or(i64::MAX);
    Ok(Packed { length, checksum: checksum(&bytes), bytes })
}

/// Unpacks the stored form of items.
pub(super) fn unpack(length: i64, expected: i64, bytes: &[u8]) -> Result<Vec<u8>, SegmentError> {
    if checksum(bytes) != expected {
        return Err(SegmentError::Checksum);
    }
    let length = usize::try_from(length).map_err(|_| SegmentError::Length)?;
    // The compressed form names its own length; memory is not taken on the word of one of the two alone.
    if zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten() != Some(length as u64) {
        return Err(SegmentError::Length);
    }
    decompressed(bytes, length).map_err(SegmentError::Compression)
}

thread_local! {
    /// Making one costs more than unpacking a turn of usual size.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    /// The room of what was unpacked before: fresh memory costs as much as the unpacking.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// More room than this is not kept.
const KEPT: usize = 256 * 1024;

/// Gives back what was unpacked, once nobody needs it.
pub(super) fn recycle(plain: Vec<u8>) {
    if plain.capacity() <= KEPT {
        SPARE.set(plain);
    }
}

fn decompressed(bytes: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        let mut plain = SPARE.take();
        plain.clear();
        plain.reserve(length);
        decompressor.decompress_to_buffer(bytes, &mut plain)?;
        Ok(plain)
    })
}

/// FNV-1a: quick, and enough against accidents, which is all it is for.
fn checksum(bytes: &[u8]) -> i64 {
    let mixed = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed.cast_signed()
}
