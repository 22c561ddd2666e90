//! How two hosts prove to each other that they have the same key and are who the store says they are, without clocks and I/O.
//! Both choose a number that is used once; each proof is made of both numbers, both hosts with their addresses, and the
//! direction. So somebody at a false address learns nothing that it could use, and what was heard earlier is worth nothing.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use rethread::secret::Secret;
use rethread::store::HostContact;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// How the protocol of the proofs is called; another version has another name.
const PROTOCOL: &str = "rethread hosts 1";
/// How many characters a key has at least: a shorter one could be guessed from one proof.
const SHORTEST_KEY: usize = 32;

/// The key that all hosts of a store share.
#[derive(Clone)]
pub struct ClusterKey(Secret);

/// The key has too few characters.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster_key has {length} characters; it needs at least {SHORTEST_KEY}")]
pub struct ShortKey {
    length: usize,
}

impl ClusterKey {
    /// Takes a key that is long enough.
    pub fn new(key: &Secret) -> Result<Self, ShortKey> {
        let key = Secret::key(key.reveal());
        let length = key.reveal().chars().count();
        if length < SHORTEST_KEY { Err(ShortKey { length }) } else { Ok(Self(key)) }
    }

    fn mac(&self, side: Side, asked: &Meeting<'_>) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.reveal().as_bytes()).expect("a key may have any length");
        let (asker, owner) = (asked.asker.number.0.to_be_bytes(), asked.owner.number.0.to_be_bytes());
        let fields: [&[u8]; 8] = [
            PROTOCOL.as_bytes(),
            side.name().as_bytes(),
            asked.asker_nonce.as_bytes(),
            asked.owner_nonce.as_bytes(),
            &asker,
            asked.asker.address.as_bytes(),
            &owner,
            asked.owner.address.as_bytes(),
        ];
        for field in fields {
            // With its length, so that no two meetings have the same bytes.
            mac.update(&(field.len() as u64).to_be_bytes());
            mac.update(field);
        }
        mac
    }

    fn prove(&self, side: Side, meeting: &Meeting<'_>) -> String {
        hex(&self.mac(side, meeting).finalize().into_bytes())
    }

    /// Compares in constant time.
    fn verify(&self, side: Side, meeting: &Meeting<'_>, proof: &str) -> bool {
        unhex(proof).is_some_and(|proof| self.mac(side, meeting).verify_slice(&proof).is_ok())
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(_)")
    }
}

/// Who proves.
#[derive(Clone, Copy)]
enum Side {
    Asker,
    Owner,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Asker => "asker to owner",
            Self::Owner => "owner to asker",
        }
    }
}

/// What a proof is about.
struct Meeting<'a> {
    asker: &'a HostContact,
    owner: &'a HostContact,
    asker_nonce: &'a str,
    owner_nonce: &'a str,
}

/// A host as it names itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedContact {
    number: i64,
    address: String,
}

impl NamedContact {
    fn of(contact: &HostContact) -> Self {
        Self { number: contact.number.0, address: contact.address.clone() }
    }

    fn contact(&self) -> HostContact {
        HostContact { number: rethread::store::HostNumber(self.number), address: self.address.clone() }
    }
}

/// The first message: who asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    protocol: String,
    from: NamedContact,
    nonce: String,
}

/// The answer: who is there, and its proof.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Challenge {
    host: NamedContact,
    nonce: String,
    proof: String,
}

/// Why a host is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistrust {
    /// The proof is not one by our key.
    #[error("whoever answers there has another cluster_key, or is not that host")]
    WrongKey,
    /// A host of ours, but not the one that was meant.
    #[error(
        "host {number} answers there, which advertises {address}: two hosts have one address, or it is wrong"
    )]
    OtherHost {
        /// Its number.
        number: i64,
        /// What it advertises.
        address: String,
    },
    /// Not this protocol.
    #[error("it speaks another version of the protocol between hosts")]
    UnknownProtocol,
}

/// A number that is used once, as hexadecimal digits.
#[derive(Clone, Debug)]
pub(crate) struct Nonce(String);

impl Nonce {
    /// A random one; nothing if the system has no random numbers.
    pub(crate) fn random() -> Option<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        Some(Self(hex(&random)))
    }
}

/// The host that asks.
pub(crate) struct AskingHost<'a> {
    pub(crate) key: &'a ClusterKey,
    pub(crate) own: &'a HostContact,
    pub(crate) other: &'a HostContact,
    pub(crate) nonce: Nonce,
}

impl AskingHost<'_> {
    pub(crate) fn hello(&self) -> Hello {
        Hello { protocol: PROTOCOL.to_owned(), from: NamedContact::of(self.own), nonce: self.nonce.0.clone() }
    }

    /// Checks that the other is the host that was meant, and gives the proof for it. A wrong one gets none.
    pub(crate) fn check(&self, challenge: &Challenge) -> Result<String, Mistrust> {
        let there = challenge.host.contact();
        let meeting = Meeting {
            asker: self.own,
            owner: &there,
            asker_nonce: &self.nonce.0,
            owner_nonce: &challenge.nonce,
        };
        if !self.key.verify(Side::Owner, &meeting, &challenge.proof) {
            return Err(Mistrust::WrongKey);
        }
        if there != *self.other {
            return Err(Mistrust::OtherHost { number: there.number.0, address: there.address });
        }
        Ok(self.key.prove(Side::Asker, &meeting))
    }
}

/// The host that is asked.
pub(crate) struct AskedHost<'a> {
    pub(crate) key: &'a ClusterKey,
    pub(crate) own: &'a HostContact,
    pub(crate) hello: Hello,
    pub(crate) nonce: Nonce,
}

impl AskedHost<'_> {
    pub(crate) fn challenge(&self) -> Result<Challenge, Mistrust> {
        if self.hello.protocol != PROTOCOL {
            return Err(Mistrust::UnknownProtocol);
        }
        let proof = self.key.prove(Side::Owner, &self.meeting(&self.asker()));
        Ok(Challenge { host: NamedContact::of(self.own), nonce: self.nonce.0.clone(), proof })
    }

    pub(crate) fn check(&self, proof: &str) -> Result<(), Mistrust> {
        let proven = self.key.verify(Side::Asker, &self.meeting(&self.asker()), proof);
        if proven { Ok(()) } else { Err(Mistrust::WrongKey) }
    }

    /// Who asks, as it says itself.
    pub(crate) fn asker(&self) -> HostContact {
        self.hello.from.contact()
    }

    fn meeting<'a>(&'a self, asker: &'a HostContact) -> Meeting<'a> {
        Meeting { asker, owner: self.own, asker_nonce: &self.hello.nonce, owner_nonce: &self.nonce.0 }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if digits.len().is_multiple_of(2) { digits.chunks(2).map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use rethread::store::HostNumber;

    use super::*;

    fn key(text: &str) -> ClusterKey {
        ClusterKey::new(&Secret::new(text.repeat(32))).unwrap()
    }

    fn host(number: i64, address: &str) -> HostContact {
        HostContact { number: HostNumber(number), address: address.to_owned() }
    }

    fn nonce(text: &str) -> Nonce {
        Nonce(text.to_owned())
    }

    /// Has A ask for a host, and B answer as the host that it is; says what each thinks of the other.
    fn meet(
        keys: (&str, &str),
        meant: &HostContact,
        there: &HostContact,
    ) -> (Result<(), Mistrust>, Option<Result<(), Mistrust>>) {
        let (ours, theirs) = (key(keys.0), key(keys.1));
        let a = host(1, "https://a.example:7373");
        let asking = AskingHost { key: &ours, own: &a, other: meant, nonce: nonce("aa") };
        let asked = AskedHost { key: &theirs, own: there, hello: asking.hello(), nonce: nonce("bb") };
        match asking.check(&asked.challenge().unwrap()) {
            Ok(proof) => (Ok(()), Some(asked.check(&proof))),
            Err(why) => (Err(why), None),
        }
    }

    #[test]
    fn hosts_with_one_key_trust_each_other() {
        let b = host(2, "https://b.example:7373");
        assert_eq!(meet(("k", "k"), &b, &b), (Ok(()), Some(Ok(()))));
    }

    #[test]
    fn another_key_or_another_host_gets_no_proof() {
        let b = host(2, "https://b.example:7373");
        assert_eq!(meet(("k", "x"), &b, &b), (Err(Mistrust::WrongKey), None));
        for there in [host(3, "https://b.example:7373"), host(2, "https://c.example:7373")] {
            let (number, address) = (there.number.0, there.address.clone());
            assert_eq!(meet(("k", "k"), &b, &there), (Err(Mistrust::OtherHost { number, address }), None));
        }
    }

    #[test]
    fn what_was_heard_earlier_or_in_the_other_direction_is_worth_nothing() {
        let (a, b, k) = (host(1, "a"), host(2, "b"), key("k"));
        let asking = AskingHost { key: &k, own: &a, other: &b, nonce: nonce("aa") };
        let asked = |own, with: &str| AskedHost { key: &k, own, hello: asking.hello(), nonce: nonce(with) };
        let earlier = asked(&b, "bb");
        let challenge = earlier.challenge().unwrap();
        let proof = asking.check(&challenge).unwrap();
        assert_eq!(earlier.check(&proof), Ok(()));
        assert_eq!(asked(&b, "cc").check(&proof), Err(Mistrust::WrongKey), "a proof that was heard");
        assert_eq!(earlier.check(&challenge.proof), Err(Mistrust::WrongKey), "its own proof sent back");
        let later = AskingHost { key: &k, own: &a, other: &b, nonce: nonce("dd") };
        assert_eq!(later.check(&challenge), Err(Mistrust::WrongKey), "a challenge that was heard");
        // Somebody in between that has the address of B passes everything on to B, whose own address is another one.
        let false_address = host(2, "evil");
        let fooled = AskingHost { key: &k, own: &a, other: &false_address, nonce: nonce("ee") };
        let real = AskedHost { key: &k, own: &b, hello: fooled.hello(), nonce: nonce("ff") };
        assert!(matches!(fooled.check(&real.challenge().unwrap()), Err(Mistrust::OtherHost { .. })));
    }

    #[test]
    fn damaged_proofs_and_short_keys_are_refused() {
        let (a, b, k) = (host(1, "a"), host(2, "b"), key("k"));
        let asking = AskingHost { key: &k, own: &a, other: &b, nonce: nonce("aa") };
        let asked = AskedHost { key: &k, own: &b, hello: asking.hello(), nonce: nonce("bb") };
        let proof = asking.check(&asked.challenge().unwrap()).unwrap();
        let cut = proof[..proof.len() - 2].to_owned();
        for wrong in ["", "zz", "0", &cut, &format!("{proof}00"), &proof.replace('a', "b").replace('0', "1")]
        {
            assert_eq!(asked.check(wrong), Err(Mistrust::WrongKey), "{wrong}");
        }
        assert_eq!(ClusterKey::new(&Secret::new("short")).unwrap_err(), ShortKey { length: 5 });
        assert_eq!(format!("{k:?}"), "ClusterKey(_)");
    }

    #[test]
    fn another_protocol_is_not_answered() {
        let (b, k) = (host(2, "b"), key("k"));
        let from = NamedContact { number: 1, address: "a".to_owned() };
        let hello = Hello { protocol: "rethread hosts 2".to_owned(), from, nonce: "aa".to_owned() };
        let asked = AskedHost { key: &k, own: &b, hello, nonce: nonce("bb") };
        assert_eq!(asked.challenge().unwrap_err(), Mistrust::UnknownProtocol);
    }
}
