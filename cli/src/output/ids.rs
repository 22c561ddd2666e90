//! Short forms of session ids. The end of an id is shown: ids of ours begin with a time, so their beginnings are alike.

/// The least number of characters that are shown.
const SHORTEST: usize = 8;

/// The ends of these ids, all of the same length and as short as they differ.
pub(crate) fn short_ids<'a>(ids: &[&'a str]) -> Vec<&'a str> {
    let longest = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0);
    let of_length = |length| ids.iter().map(|id| end_of(id, length)).collect::<Vec<_>>();
    let differ = |short: &[&str]| {
        let mut sorted = short.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    };
    let lengths = SHORTEST..longest.max(SHORTEST);
    lengths.map(of_length).find(|short| differ(short)).unwrap_or_else(|| ids.to_vec())
}

/// The last characters of an id.
fn end_of(id: &str, length: usize) -> &str {
    let start = id.char_indices().rev().nth(length.saturating_sub(1)).map_or(0, |(at, _)| at);
    &id[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_differ() {
        assert_eq!(short_ids(&["0192-11112222", "0192-33334444"]), ["11112222", "33334444"]);
        assert_eq!(short_ids(&["1-x-11112222", "2-y-11112222"]), ["x-11112222", "y-11112222"]);
        assert_eq!(short_ids(&["s1", "é2"]), ["s1", "é2"]);
        assert_eq!(short_ids(&["ééééééééé1"]), ["ééééééé1"]);
        assert_eq!(short_ids(&["same-same-same", "same-same-same"]), ["same-same-same", "same-same-same"]);
    }
}
