//! The files of the web page, which `web/build.mjs` has built and compressed. They are part of the program, so that building it needs
//! nothing but Rust.

use bytes::Bytes;
use rethread_http::{PageCaching, PageEncoding, PageFile, PageFiles};

/// A file of `web/dist`.
#[derive(Debug)]
struct EmbeddedFile {
    path: &'static str,
    content_type: &'static str,
    etag: &'static str,
    content: &'static [u8],
    brotli: &'static [u8],
    gzip: &'static [u8],
}

/// Used by `files.in`, so that names are those of its folder.
macro_rules! embedded {
    ($path:literal, $name:literal, $content_type:literal, $etag:literal) => {
        EmbeddedFile {
            path: $path,
            content_type: $content_type,
            etag: $etag,
            content: include_bytes!($name),
            brotli: include_bytes!(concat!($name, ".br")),
            gzip: include_bytes!(concat!($name, ".gz")),
        }
    };
}

static FILES: &[EmbeddedFile] = &include!("../../../web/dist/files.in");

/// The web page that is part of this program.
#[derive(Debug)]
pub(crate) struct EmbeddedPage;

impl PageFiles for EmbeddedPage {
    fn file(&self, path: &str) -> Option<PageFile> {
        let file = FILES.iter().find(|file| file.path == path)?;
        // The start of the page names the others, whose names change with their content.
        let caching = if path == "/" { PageCaching::Checked } else { PageCaching::Forever };
        Some(PageFile {
            content: Bytes::from_static(file.content),
            content_type: file.content_type,
            etag: file.etag.to_owned(),
            caching,
            compressed: vec![
                (PageEncoding::Brotli, Bytes::from_static(file.brotli)),
                (PageEncoding::Gzip, Bytes::from_static(file.gzip)),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_the_page_names_files_that_are_there() {
        let start = EmbeddedPage.file("/").expect("the page has a start");
        let text = String::from_utf8(start.content.to_vec()).expect("it is text");
        let named: Vec<&str> =
            text.split('"').filter(|part| part.starts_with("/") && part.len() > 1).collect();
        assert_eq!(named.len(), 3, "a script, a style and an icon: {text}");
        for path in named {
            let file = EmbeddedPage.file(path).unwrap_or_else(|| panic!("{path} is missing"));
            assert_eq!(file.caching, PageCaching::Forever);
            assert!(file.compressed.iter().all(|(_, content)| content.len() <= file.content.len()));
        }
        assert!(!text.contains("<style") && !text.contains("style=") && !text.contains("<script>"), "{text}");
        assert!(EmbeddedPage.file("/files.in").is_none() && EmbeddedPage.file("/../Cargo.toml").is_none());
    }

    #[test]
    fn the_first_view_is_small() {
        let first = |file: &&EmbeddedFile| file.path == "/" || file.path.starts_with("/app-");
        let size: usize = FILES.iter().filter(first).map(|file| file.gzip.len()).sum();
        assert!(size < 150_000, "{size} bytes");
    }
}
