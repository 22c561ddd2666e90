//! Recognises binary files and images by their first bytes.

/// The first bytes of known file types.
const BEGINNINGS: [(&[u8], &str); 22] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"RIFF", "RIFF media"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class or a universal program"),
    (b"MZ\x90\0", "a Windows program or library"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// The media type of an image that models accept, by its first bytes.
pub(super) fn image(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if head.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some("image/gif"),
        _ => None,
    }
}

/// The type of a binary file, by its first bytes; `None` for text.
pub(super) fn binary(head: &[u8]) -> Option<&'static str> {
    let known = BEGINNINGS.iter().find(|(beginning, _)| head.starts_with(beginning));
    match known {
        // ASCII signatures may also begin a text, so a zero byte must follow.
        Some((beginning, name)) if !beginning.is_ascii() || has_zero(head) => Some(name),
        Some((b"%PDF-" | b"GIF89a" | b"GIF87a", name)) => Some(name),
        Some(_) | None => has_zero(head).then_some("binary data"),
    }
}

fn has_zero(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::binary;

    #[test]
    fn files_are_recognised_by_their_first_bytes() {
        for (head, expected) in [
            (&b"fn main() {}"[..], None),
            (b"", None),
            (b"BZh is a beginning, and this is a text", None),
            (b"\xff\xfea\0", Some("UTF-16 text")),
            (b"\x89PNG\r\n\x1a\n...", Some("a PNG image")),
            (b"%PDF-1.7 ...", Some("a PDF document")),
            (b"PK\x03\x04\0\0", Some("a ZIP archive")),
            (b"a\0b", Some("binary data")),
            (b"caf\xe9", None),
        ] {
            assert_eq!(binary(head), expected, "{head:?}");
        }
    }
}
