//! The stored form of a segment: compressed, with its length and a checksum, so that damage is detected. Which items
//! share a segment is decided in `fold`.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

use crate::store::page;

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
    Compression(#[source] std::io::Error),
}

/// Compresses encoded items.
pub(super) fn pack(plain: &[u8]) -> std::io::Result<Packed> {
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

fn decompressed(bytes: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
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
