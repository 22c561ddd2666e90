//! Finds the working directory of a Gemini session: it is not in the session's file but beside it, or known by a hash.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::importer::files;

/// The largest file that says where projects are.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The directory of a session's file.
pub(super) fn directory(path: &Path, hash: Option<&str>) -> Option<String> {
    let chats = path.ancestors().find(|folder| folder.ends_with("chats"))?;
    let project = chats.parent()?;
    let named = text(&project.join(".project_root")).map(|root| root.trim().to_owned());
    named.filter(|root| !root.is_empty()).or_else(|| listed(project, hash))
}

/// The directory in the list of all projects, by its short name or by its hash.
fn listed(project: &Path, hash: Option<&str>) -> Option<String> {
    let name = project.file_name()?.to_str()?;
    let list = text(&project.parent()?.parent()?.join("projects.json"))?;
    let list: Value = serde_json::from_str(&list).ok()?;
    let projects = list["projects"].as_object()?;
    let is_it =
        |path: &str, short: &Value| short == name || Some(&*sha256(path)) == hash || sha256(path) == name;
    projects.iter().find(|(path, short)| is_it(path, short)).map(|(path, _)| path.clone())
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn text(path: &Path) -> Option<String> {
    let (file, _) = files::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}
