//! Sizes of files for people.

/// A number of bytes in one unit: `1.2 MB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let (whole, tenth) = (bytes / unit, bytes % unit * 10 / unit);
            format!("{whole}.{tenth} {name}")
        }
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_one_unit() {
        let sizes = [0, 999, 1_000, 1_250_000, 43_999_999_999, u64::MAX].map(size);
        assert_eq!(sizes[..5], ["0 bytes", "999 bytes", "1.0 kB", "1.2 MB", "43.9 GB"]);
        assert!(sizes[5].ends_with(" GB"));
    }
}
