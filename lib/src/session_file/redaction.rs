//! Replaces what looks like a secret in the header of a session file. Entries are redacted in `secret`.

use super::header::SessionFileHeader;
use crate::secret::SecretFinder;

/// Replaces what looks like a secret in the title.
pub(super) fn redacted_header(mut header: SessionFileHeader, finder: &mut SecretFinder) -> SessionFileHeader {
    header.title = header.title.map(|title| finder.redact(&title).into_owned());
    header
}
