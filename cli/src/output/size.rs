//! Sizes for people.

/// A number of bytes with one unit: `1.2 MB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit / (unit / 10)),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_unit() {
        let sizes = [0, 999, 1000, 1_960_000, 34_000_000_000, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "1.9 MB", "34.0 GB", "18446744073.7 GB"]);
    }
}
