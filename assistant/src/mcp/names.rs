//! Builds unique names of servers and tools: one for users and one that model providers accept. The caller keeps the set
//! of names that are taken.

use std::collections::BTreeSet;

/// The maximum length of a name that providers accept.
const LONGEST_SAFE: usize = 64;
/// The maximum length of a tool's part of a name for users.
const LONGEST_SHOWN: usize = 100;

/// The server's part of tool names. Contains no full stop, since that is the separator.
pub(super) fn server(name: &str, taken: &mut BTreeSet<String>) -> String {
    unique(&safe(name.trim(), "server"), LONGEST_SAFE / 2, taken)
}

/// The name of a tool for users.
pub(super) fn shown(server: &str, tool: &str, taken: &mut BTreeSet<String>) -> String {
    let fit = |c: char| if c.is_whitespace() || c.is_control() || is_unseen(c) { '_' } else { c };
    let tool: String = tool.trim().chars().map(fit).take(LONGEST_SHOWN).collect();
    let tool = if tool.is_empty() { "tool" } else { &tool };
    unique(&format!("{server}.{tool}"), usize::MAX, taken)
}

/// Whether a character is invisible or changes the direction of text, so that names look alike.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The name of a tool for model providers.
pub(super) fn provider(server: &str, tool: &str, taken: &mut BTreeSet<String>) -> String {
    unique(&format!("{server}__{}", safe(tool.trim(), "tool")), LONGEST_SAFE, taken)
}

fn safe(name: &str, empty: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let name: String = name.chars().map(fit).take(LONGEST_SHOWN).collect();
    if name.is_empty() { empty.to_owned() } else { name }
}

/// The name, with a number if it is taken, within a maximum length.
fn unique(name: &str, longest: usize, taken: &mut BTreeSet<String>) -> String {
    let cut = |room: usize| name.chars().take(room).collect::<String>();
    let mut found = cut(longest);
    let mut number = 2;
    while taken.contains(&found) {
        let suffix = format!("-{number}");
        found = cut(longest.saturating_sub(suffix.len())) + &suffix;
        number += 1;
    }
    taken.insert(found.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_plain_and_unique() {
        let mut taken = BTreeSet::new();
        let mut named = |name: &str| server(name, &mut taken);
        assert_eq!(named("git hub.com"), "git_hub_com");
        assert_eq!(named("git/hub.com"), "git_hub_com-2");
        assert_eq!(named(""), "server");
        assert_eq!(named(&"x".repeat(500)).len(), 32);
        assert_eq!(named(&"x".repeat(500)), "x".repeat(30) + "-2");
    }

    #[test]
    fn tool_names_stay_close_to_the_servers_names() {
        let (mut seen, mut safe) = (BTreeSet::new(), BTreeSet::new());
        let mut named = |tool: &str| (shown("s", tool, &mut seen), provider("s", tool, &mut safe));
        assert_eq!(named("read.file"), ("s.read.file".into(), "s__read_file".into()));
        assert_eq!(named("read_file"), ("s.read_file".into(), "s__read_file-2".into()));
        assert_eq!(named("read file"), ("s.read_file-2".into(), "s__read_file-3".into()));
        assert_eq!(named("größe"), ("s.größe".into(), "s__gr__e".into()));
        assert_eq!(named(" "), ("s.tool".into(), "s__tool".into()));
        assert_eq!(named("\u{202e}daer\u{200b}").0, "s._daer_");
        let (shown, safe) = named(&"x".repeat(500));
        assert!(shown.chars().count() <= LONGEST_SHOWN + 2 && safe.len() == LONGEST_SAFE);
        assert_eq!(named(&"x".repeat(500)).1.len(), LONGEST_SAFE);
    }
}
