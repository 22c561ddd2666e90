//! Checks where a request says that it comes from, before anything else: a web page of somebody else must not reach the
//! server through the user's browser, by its own name or by one that leads here. Forwarded headers are not looked at.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};

/// The names under which the server may be reached, and the pages that may use it.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// Allows the names of this machine, the address that is listened on, and these hosts and origins.
    #[must_use]
    pub fn new(listening: std::net::IpAddr, hosts: &[String], origins: &[String]) -> Self {
        let local = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let own = match listening {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        };
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>();
        let hosts = local.into_iter().chain([own]).chain(lower(hosts)).collect();
        let origins = lower(origins).iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect();
        Self { hosts, origins }
    }

    /// Refuses a request with a wrong host or origin.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), StatusCode> {
        let host = host_of(uri, headers)?.to_ascii_lowercase();
        let name = without_port(&host);
        if !self.hosts.iter().any(|known| known == name || *known == host) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if origin.to_str().is_ok_and(|origin| self.allows(origin, &host)) => Ok(()),
            (Some(_), _) => Err(StatusCode::FORBIDDEN),
        }
    }

    /// A page of this server itself, or one that was allowed.
    fn allows(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        own == Some(host) || self.origins.contains(&origin)
    }
}

/// The one host that a request names: HTTP/2 has it in the address.
fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, StatusCode> {
    let mut hosts = headers.get_all(HOST).iter();
    let header = hosts.next().map(|host| host.to_str().map_err(|_| StatusCode::BAD_REQUEST)).transpose()?;
    if hosts.next().is_some() {
        return Err(StatusCode::BAD_REQUEST);
    }
    match (uri.authority().map(http::uri::Authority::as_str), header) {
        (Some(address), Some(header)) if address != header => Err(StatusCode::BAD_REQUEST),
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(StatusCode::BAD_REQUEST),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(guard: &Guard, host: &str, origin: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        guard.check(&Uri::from_static("/acp"), &headers).map_or_else(|code| code.as_u16(), |()| 200)
    }

    #[test]
    fn only_known_hosts_and_origins_pass() {
        let allowed = (["team.example".to_owned()], ["https://app.example".to_owned()]);
        let guard = Guard::new("127.0.0.1".parse().unwrap(), &allowed.0, &allowed.1);
        for host in ["localhost:7373", "127.0.0.1:7373", "[::1]:7373", "LOCALHOST", "team.example"] {
            assert_eq!(checked(&guard, host, None), 200, "{host}");
        }
        for host in ["evil.example:7373", "localhost.evil.example", "127.0.0.1.evil.example", "", ":7373"] {
            assert_eq!(checked(&guard, host, None), 421, "{host}");
        }
        for origin in ["http://localhost:7373", "https://app.example", "https://APP.example"] {
            assert_eq!(checked(&guard, "localhost:7373", Some(origin)), 200, "{origin}");
        }
        for origin in
            ["http://evil.example", "null", "http://localhost:8080", "https://app.example.evil.example"]
        {
            assert_eq!(checked(&guard, "localhost:7373", Some(origin)), 403, "{origin}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let guard = Guard::new("127.0.0.1".parse().unwrap(), &[], &[]);
        let mut headers = HeaderMap::new();
        assert_eq!(guard.check(&Uri::from_static("/"), &headers), Err(StatusCode::BAD_REQUEST));
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(HOST, "localhost".parse().unwrap());
        assert_eq!(guard.check(&Uri::from_static("/"), &headers), Err(StatusCode::BAD_REQUEST));
        let (absolute, empty) = (Uri::from_static("http://localhost/acp"), HeaderMap::new());
        assert_eq!(guard.check(&absolute, &empty), Ok(()));
        headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1".parse().unwrap());
        assert_eq!(guard.check(&absolute, &headers), Err(StatusCode::BAD_REQUEST), "two that differ");
    }
}
