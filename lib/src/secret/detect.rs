//! Finds what looks like a key, a token or a password in any text, and replaces it. Knows no values: it goes by well-known
//! prefixes, by headers and by names such as `password`. Other values, such as the hashes of commits, stay.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

/// A kind of secret and how it is recognized. The group `value` is replaced, or the whole match if there is none.
struct SecretPattern {
    kind: &'static str,
    pattern: &'static str,
    check: ValueCheck,
}

/// What else a value must be.
#[derive(Clone, Copy)]
enum ValueCheck {
    /// Nothing: the pattern is certain.
    None,
    /// Letters and digits.
    Mixed,
    /// Not a word, a number, an expression or a path.
    Random,
}

// Text of gigabytes is searched. So no pattern begins with a long repetition, and the boundaries of words are those of ASCII:
// with others the regular expressions are hundreds of times slower.
const PATTERNS: [SecretPattern; 21] = [
    certain(
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-])*(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    certain("JSON web token", r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    mixed("API key", r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    certain("GitHub token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    mixed("GitLab token", r"(?-u:\b)gl(?:pat|rt|dt|cbt)-[A-Za-z0-9_-]{20,}"),
    mixed("Slack token", r"(?-u:\b)x(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}"),
    certain("Slack webhook", r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    certain("AWS access key", r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)"),
    certain(
        "Google key",
        r"(?-u:\b)(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    ),
    certain("Stripe key", r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    certain("npm token", r"(?-u:\b)npm_[A-Za-z0-9]{36}(?-u:\b)"),
    certain("PyPI token", r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}"),
    mixed("Hugging Face token", r"(?-u:\b)hf_[A-Za-z0-9]{30,}"),
    certain("SendGrid key", r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    mixed("Docker token", r"(?-u:\b)dckr_[a-z]+_[A-Za-z0-9_-]{20,}"),
    certain(
        "authorization header",
        r#"(?i)(?-u:\b)(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate)\s+)?(?<value>[^\s"',;<>\\]{8,})"#,
    ),
    random("bearer token", r"(?i)(?-u:\b)bearer\s+(?<value>[A-Za-z0-9._~+/=-]{16,})"),
    certain("password in an address", r"[a-z0-9+.-]://[^\s/:@<>]{1,64}:(?<value>[^\s/@:<>$]{3,128})@"),
    random(
        "password or key",
        r#"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|secret[_-]?key)["']?\s*(?:[:=]|=>|:=)\s*["']?(?<value>[^\s"',;<>\\]{8,})"#,
    ),
    // Titles are cut off after a number of characters, in the middle of a key too.
    certain(
        "key that was cut off",
        r"(?-u:\b)(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.|[rs]k_(?:live|test)_|npm_|pypi-|hf_|SG\.|eyJ|dckr_pat_)[A-Za-z0-9_.-]*…$",
    ),
    certain(
        "password that was cut off",
        r#"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|authorization)["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?(?<value>[^\s"',;]+)…$"#,
    ),
];

const fn certain(kind: &'static str, pattern: &'static str) -> SecretPattern {
    SecretPattern { kind, pattern, check: ValueCheck::None }
}

const fn mixed(kind: &'static str, pattern: &'static str) -> SecretPattern {
    SecretPattern { kind, pattern, check: ValueCheck::Mixed }
}

const fn random(kind: &'static str, pattern: &'static str) -> SecretPattern {
    SecretPattern { kind, pattern, check: ValueCheck::Random }
}

static ANY: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(PATTERNS.iter().map(|pattern| pattern.pattern)).expect("the patterns are valid")
});

static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let regex = |pattern: &SecretPattern| Regex::new(pattern.pattern).expect("the patterns are valid");
    PATTERNS.iter().map(regex).collect()
});

/// Replaces what looks like a secret, and counts what it replaced.
#[derive(Clone, Debug, Default)]
pub struct SecretFinder {
    counts: BTreeMap<&'static str, usize>,
}

impl SecretFinder {
    /// Replaces what looks like a secret.
    pub fn redact<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for at in ANY.matches(&text).iter() {
            if let Some(redacted) = self.replace(at, &text) {
                text = Cow::Owned(redacted);
            }
        }
        text
    }

    /// What was replaced so far: the kinds and how many of each.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }

    fn replace(&mut self, at: usize, text: &str) -> Option<String> {
        let SecretPattern { kind, check, .. } = &PATTERNS[at];
        let mut count = 0;
        let replaced = EACH[at].replace_all(text, |found: &Captures<'_>| {
            let whole = found.get(0).expect("a match is its own first group");
            let value = found.name("value").unwrap_or(whole);
            if !check.accepts(value.as_str()) || value.as_str().starts_with("[redacted") {
                return whole.as_str().to_owned();
            }
            count += 1;
            let (before, after) = (&text[whole.start()..value.start()], &text[value.end()..whole.end()]);
            format!("{before}[redacted: {kind}]{after}")
        });
        let replaced = (count > 0).then(|| replaced.into_owned());
        if count > 0 {
            *self.counts.entry(kind).or_default() += count;
        }
        replaced
    }
}

impl ValueCheck {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::None => true,
            Self::Mixed => {
                value.contains(|c: char| c.is_ascii_digit())
                    && value.contains(|c: char| c.is_ascii_alphabetic())
            }
            Self::Random => looks_random(value),
        }
    }
}

/// Says whether a value is neither a word, a number, a variable, an expression nor a path.
fn looks_random(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ')', ']', '}']);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+/=_-.!@#%^&*~?".contains(c);
    if !value.chars().all(allowed) || value.starts_with(['/', '.', '@', '#']) {
        return false;
    }
    // Names have separators; of a random value at least one part is no word.
    value.split(['_', '-', '.', '/']).any(|part| part.len() >= 8 && is_no_word(part) && entropy(part) >= 2.7)
}

/// Says whether digits are spread over a value, or mixed with letters of both cases. Words have one number at most, as
/// `sha256sum` or `version12`.
fn is_no_word(part: &str) -> bool {
    let digits = part.chars().filter(char::is_ascii_digit).count();
    let numbers = part.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty()).count();
    let has = |test: fn(&char) -> bool| part.chars().any(|c| test(&c));
    let (small, large) = (has(char::is_ascii_lowercase), has(char::is_ascii_uppercase));
    (small || large) && (numbers >= 2 || digits >= 6 || (digits >= 1 && small && large))
}

/// The bits of information in each character, by how often characters occur.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 128];
    for byte in text.bytes() {
        counts[usize::from(byte & 0x7f)] += 1;
    }
    let total = text.len() as f64;
    let share = |count: &u32| {
        let share = f64::from(*count) / total;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        SecretFinder::default().redact(text).into_owned()
    }

    /// Made of parts, so that no scanner takes this file for one with keys in it.
    fn key(parts: &[&str]) -> String {
        parts.concat()
    }

    #[test]
    fn well_known_keys_are_replaced() {
        let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
        for (secret, kind) in [
            (key(&["sk-", "ant-api03-", body]), "API key"),
            (key(&["sk-", "proj-", body]), "API key"),
            (key(&["gh", "p_", &body[..36]]), "GitHub token"),
            (key(&["github_", "pat_", body]), "GitHub token"),
            (key(&["gl", "pat-", &body[..20]]), "GitLab token"),
            (key(&["xo", "xb-", "123456789012-abcdefGHIJKL"]), "Slack token"),
            (key(&["AK", "IA", "IOSFODNN7EXAMPLE"]), "AWS access key"),
            (key(&["AI", "za", &body[..35]]), "Google key"),
            (key(&["sk_", "live_", &body[..24]]), "Stripe key"),
            (key(&["np", "m_", &body[..36]]), "npm token"),
            (
                key(&["eyJ", "hbGciOiJIUzI1NiJ9", ".eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0", ".", &body[..30]]),
                "JSON web token",
            ),
        ] {
            let text = format!("use {secret}, or 'x={secret}'.");
            let wanted = format!("use [redacted: {kind}], or 'x=[redacted: {kind}]'.");
            assert_eq!(redacted(&text), wanted);
        }
    }

    #[test]
    fn private_keys_are_replaced_also_without_their_end() {
        let (begin, end) =
            (key(&["-----BEGIN RSA PRIVATE", " KEY-----"]), key(&["-----END RSA PRIVATE", " KEY-----"]));
        let text = format!("a\n{begin}\nMIIEow+/=\nabc\n{end}\nb");
        assert_eq!(redacted(&text), "a\n[redacted: private key]\nb");
        assert_eq!(redacted(&format!("a {begin}\nMIIEow\n")), "a [redacted: private key]");
    }

    #[test]
    fn headers_and_assignments_are_replaced() {
        for (text, wanted) in [
            (
                "Authorization: Bearer abcdefgh12345678",
                "Authorization: Bearer [redacted: authorization header]",
            ),
            (
                "-H 'authorization: Basic dXNlcjpwYXNz'",
                "-H 'authorization: Basic [redacted: authorization header]'",
            ),
            ("password=Tr0ub4dor&3x!", "password=[redacted: password or key]"),
            (r#""api_key": "9f8e7d6c5b4a39281706""#, r#""api_key": "[redacted: password or key]""#),
            ("DB_PASSWORD: x7Kp2mQz9w", "DB_PASSWORD: [redacted: password or key]"),
            (
                "curl https://me:s3cr3tword@host/x",
                "curl https://me:[redacted: password in an address]@host/x",
            ),
            (
                "export GH_TOKEN=0123456789abcdef0123456789abcdef01234567",
                "export GH_TOKEN=[redacted: password or key]",
            ),
        ] {
            assert_eq!(redacted(text), wanted);
        }
    }

    #[test]
    fn prose_code_and_hashes_stay() {
        for text in [
            "commit 7c8017e1d2f3a4b5c6d7e8f90a1b2c3d4e5f6071 fixes it",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "id 019a3f52-7d6e-7c3b-9f2a-1b2c3d4e5f60",
            "The password is required: choose a good password, please.",
            "password = os.environ['DB_PASSWORD']",
            "let token = lexer.next_token2();",
            "token: TokenKind::Identifier",
            "secret = config.secret_v2_name",
            "API_KEY=${API_KEY}",
            "api_key: <your-api-key-here>",
            "password: ********",
            "tokenizer: gpt2-large-v1.2.3",
            "\"inputTokens\": 1234567890",
            "token = \"expected_identifier\"",
            "sk-learn-compatible-estimators-and-more",
            "task-management-system-number-2024-a1b2c3",
            "the bearer of bad news will be rewarded",
            "http://localhost:8080/path@v1",
            "git@github.com:owner/name.git",
            "access_key = sha256sum",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn keys_that_were_cut_off_are_replaced() {
        let cut = key(&["my token is gh", "p_a1B2c3D4e5F6…"]);
        assert_eq!(redacted(&cut), "my token is [redacted: key that was cut off]");
        assert_eq!(redacted("use password=hunt…"), "use password=[redacted: password that was cut off]…");
        for text in ["a title that was cut off in the midd…", "the token is…", "explain sk…"] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn what_was_replaced_is_counted_and_not_replaced_again() {
        let mut finder = SecretFinder::default();
        let secret = key(&["AK", "IA", "IOSFODNN7EXAMPLE"]);
        let once = finder.redact(&format!("{secret} {secret} password=x7Kp2mQz9w")).into_owned();
        assert_eq!(finder.counts().collect::<Vec<_>>(), [("AWS access key", 2), ("password or key", 1)]);
        assert_eq!(finder.redact(&once), once);
    }

    #[test]
    fn long_hostile_texts_take_linear_time() {
        let text = "password=".repeat(4_000) + &"a:".repeat(20_000) + &"-".repeat(20_000);
        let start = std::time::Instant::now();
        redacted(&text);
        assert!(start.elapsed().as_secs() < 20, "quadratic time takes minutes");
    }
}
