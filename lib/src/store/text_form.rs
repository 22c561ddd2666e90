//! The form in which a store keeps the text of a found message: compressed if it is long, and the speaker as a number.

use std::io;

use rethread_core::Speaker;

/// Texts from this size on are compressed.
const COMPRESSED_FROM: usize = 512;

/// Fast compression, since a message is compressed while its turn has just ended.
const COMPRESSION_LEVEL: i32 = 1;

/// A text as it is stored, and its length if it is compressed.
pub(super) fn pack_text(text: &str) -> io::Result<(Option<i64>, Vec<u8>)> {
    if text.len() < COMPRESSED_FROM {
        return Ok((None, text.as_bytes().to_vec()));
    }
    let packed = zstd::bulk::compress(text.as_bytes(), COMPRESSION_LEVEL)?;
    Ok((Some(i64::try_from(text.len()).unwrap_or(i64::MAX)), packed))
}

/// Reads what [`pack_text`] has made.
pub(super) fn unpack_text(length: Option<i64>, bytes: &[u8]) -> io::Result<String> {
    let bad = |cause| io::Error::new(io::ErrorKind::InvalidData, cause);
    let plain = match length {
        None => bytes.to_vec(),
        Some(length) => zstd::bulk::decompress(bytes, usize::try_from(length).unwrap_or(0))?,
    };
    String::from_utf8(plain).map_err(|error| bad(error.to_string()))
}

const SPEAKERS: [Speaker; 8] = [
    Speaker::User,
    Speaker::Agent,
    Speaker::Thought,
    Speaker::Tool,
    Speaker::Terminal,
    Speaker::Plan,
    Speaker::Compaction,
    Speaker::Notice,
];

/// The number of a speaker.
pub(super) fn speaker_number(speaker: Speaker) -> i64 {
    SPEAKERS.iter().zip(0..).find(|(known, _)| **known == speaker).map_or(0, |(_, number)| number)
}

/// The speaker with this number.
pub(super) fn speaker(number: i64) -> Speaker {
    let at = usize::try_from(number).unwrap_or(0);
    SPEAKERS.get(at).copied().unwrap_or(Speaker::Notice)
}
