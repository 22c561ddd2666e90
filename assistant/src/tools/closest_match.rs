//! Explains why a text was not found in a file: finds the closest match and describes the difference.

use super::excerpt::shortened;

/// The maximum number of lines that are compared by similarity.
const MOST_COMPARED: usize = 5000;
/// The maximum length of a line that is compared.
const LONGEST_COMPARED: usize = 200;
/// The maximum number of bytes of the file that are quoted.
const LONGEST_REPEATED: usize = 600;

/// Describes the closest match of a text that was not found.
pub(super) fn miss(text: &str, old: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    let spaced = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    window(&lines, &wanted, "it differs in white space only", spaced)
        .or_else(|| window(&lines, &wanted, "it differs in upper and lower case only", str::to_lowercase))
        .or_else(|| numbered(&lines, &wanted))
        .or_else(|| parting(&lines, &wanted))
        .or_else(|| likeness(&lines, &wanted))
        .unwrap_or_else(|| "nothing similar is in the file; read it again".to_owned())
}

/// The lines that are equal after a normalisation.
fn window(lines: &[&str], wanted: &[&str], how: &str, look: fn(&str) -> String) -> Option<String> {
    let looked: Vec<String> = lines.iter().map(|line| look(line)).collect();
    let wanted: Vec<String> = wanted.iter().map(|line| look(line)).collect();
    // The first and the last line may be incomplete.
    let same = |window: &[String]| match (window, wanted.as_slice()) {
        ([line], [wanted]) => line.contains(wanted.as_str()) && !wanted.is_empty(),
        ([first, between @ .., last], [head, middle @ .., tail]) => {
            first.ends_with(head.as_str()) && between == middle && last.starts_with(tail.as_str())
        }
        _ => false,
    };
    let at = looked.windows(wanted.len().max(1)).position(same)?;
    let there = lines[at..at + wanted.len()].join("\n");
    Some(format!("{how}; line {} has:\n{}", at + 1, shortened(&there, LONGEST_REPEATED)))
}

/// Detects line numbers as `read` shows them.
fn numbered(lines: &[&str], wanted: &[&str]) -> Option<String> {
    let bare: Option<Vec<&str>> = wanted
        .iter()
        .map(|line| {
            let (number, rest) = line.trim_start().split_once('\t')?;
            number.parse::<u64>().is_ok().then_some(rest)
        })
        .collect();
    let bare = bare.filter(|bare| !bare.is_empty())?;
    let found = lines.windows(bare.len()).any(|window| window == bare.as_slice());
    found.then(|| "leave out the line numbers that read shows".to_owned())
}

/// Finds lines that begin equal, and describes the first difference.
fn parting(lines: &[&str], wanted: &[&str]) -> Option<String> {
    let first = wanted.first().map(|line| line.trim()).filter(|line| !line.is_empty())?;
    let same = |at: usize| {
        let pairs = lines[at..].iter().zip(wanted);
        pairs.take_while(|(line, wanted)| line.trim() == wanted.trim()).count()
    };
    let starts = (0..lines.len()).filter(|at| lines[*at].trim() == first);
    let (at, length) = starts.map(|at| (at, same(at))).max_by_key(|(_, length)| *length)?;
    let sent = wanted.get(length)?;
    let there = lines.get(at + length).map_or("the end of the file".to_owned(), |line| format!("{line:?}"));
    let there = shortened(&there, LONGEST_REPEATED);
    let sent = shortened(&format!("{sent:?}"), LONGEST_REPEATED);
    Some(format!(
        "line {} is the same as its first, but line {} is {there} and not {sent}",
        at + 1,
        at + length + 1
    ))
}

/// Finds the line that is most similar to the longest wanted one.
fn likeness(lines: &[&str], wanted: &[&str]) -> Option<String> {
    let short = |line: &&str| line.len() <= LONGEST_COMPARED && !line.trim().is_empty();
    let longest = wanted.iter().copied().filter(short).max_by_key(|line| line.len())?;
    let candidates: Vec<&str> = lines.iter().copied().take(MOST_COMPARED).filter(short).collect();
    let like = *similar::get_close_matches(longest, &candidates, 1, 0.6).first()?;
    let at = lines.iter().position(|line| *line == like)?;
    Some(format!("the nearest is line {}: {like:?}", at + 1))
}

#[cfg(test)]
mod tests {
    use super::miss;

    #[test]
    fn close_matches_are_described() {
        let text = "fn main() {\n    let one = 1;\n    print(one);\n}\n";
        for (old, expected) in [
            (
                "fn main() {\n  let one = 1;",
                "it differs in white space only; line 1 has:\nfn main() {\n    let one = 1;",
            ),
            ("let  one", "it differs in white space only; line 2 has:\n    let one = 1;"),
            ("FN MAIN", "it differs in upper and lower case only; line 1 has:\nfn main() {"),
            ("     2\t    let one = 1;", "leave out the line numbers that read shows"),
            (
                "fn main() {\n    let two = 2;",
                "line 1 is the same as its first, but line 2 is \"    let one = 1;\" and not \"    let two = 2;\"",
            ),
            ("    let one = 17;", "the nearest is line 2: \"    let one = 1;\""),
            ("something else altogether", "nothing similar is in the file; read it again"),
        ] {
            assert_eq!(miss(text, old), expected, "{old:?}");
        }
        assert_eq!(miss("", "x"), "nothing similar is in the file; read it again");
    }
}
