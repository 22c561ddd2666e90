//! The ids of events: `<epoch>.<number>`. The epoch tells the lives of a connection's streams apart.

use http::StatusCode;

/// The id of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) epoch: String,
    pub(crate) number: u64,
}

impl EventId {
    /// Reads the header `Last-Event-ID` strictly.
    pub(crate) fn read(text: &str) -> Result<Self, StatusCode> {
        let (epoch, number) = text.split_once('.').ok_or(StatusCode::BAD_REQUEST)?;
        let digits =
            |part: &str| !part.is_empty() && part.len() <= 20 && part.bytes().all(|b| b.is_ascii_digit());
        let hex = !epoch.is_empty() && epoch.len() <= 32 && epoch.bytes().all(|b| b.is_ascii_hexdigit());
        if !hex || !digits(number) {
            return Err(StatusCode::BAD_REQUEST);
        }
        let number = number.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
        Ok(Self { epoch: epoch.to_owned(), number })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_strictly() {
        let id = EventId::read("0a1b.42").unwrap();
        assert_eq!((id.epoch.as_str(), id.number, id.to_string()), ("0a1b", 42, "0a1b.42".to_owned()));
        for wrong in [
            "",
            "42",
            ".42",
            "0a1b.",
            "0a1b.-1",
            "0a1b.1e3",
            "x.1",
            "0a1b.1.2",
            "0a1b. 1",
            "0a1b.99999999999999999999",
            "0a1b.999999999999999999999",
        ] {
            assert_eq!(EventId::read(wrong), Err(StatusCode::BAD_REQUEST), "{wrong}");
        }
    }
}
