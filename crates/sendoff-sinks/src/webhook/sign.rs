//! Signatures after Standard Webhooks.

use std::fmt;
use std::fmt::Write;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use ring::signature::Ed25519KeyPair;

/// Bytes of a secret that is shared.
pub(super) const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Some write keys without the padding.
const KEYS: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key that requests are signed with.
enum Key {
    Hmac(hmac::Key),
    Ed25519(Box<Ed25519KeyPair>),
}

impl Key {
    /// Reads `whsec_` and a secret of both sides, or `whsk_` and a private key, each in base64.
    fn read(text: &str) -> Result<Self, InvalidKey> {
        let decode = |text: &str| KEYS.decode(text).map_err(|_| InvalidKey::Base64);
        if let Some(secret) = text.strip_prefix("whsec_") {
            let secret = decode(secret)?;
            return match SECRET_BYTES.contains(&secret.len()) {
                true => Ok(Self::Hmac(hmac::Key::new(hmac::HMAC_SHA256, &secret))),
                false => Err(InvalidKey::SecretBytes(secret.len())),
            };
        }
        let key = decode(text.strip_prefix("whsk_").ok_or(InvalidKey::Prefix)?)?;
        let pair = match key.split_at_checked(32) {
            Some((seed, [])) => Ed25519KeyPair::from_seed_unchecked(seed),
            // The public key may be written after it.
            Some((seed, public)) if public.len() == 32 => {
                Ed25519KeyPair::from_seed_and_public_key(seed, public)
            }
            _ => return Err(InvalidKey::KeyBytes(key.len())),
        };
        pair.map(|pair| Self::Ed25519(Box::new(pair))).map_err(|_| InvalidKey::Pair)
    }

    /// The signature of these parts, one after the other.
    fn sign(&self, parts: [&[u8]; 2]) -> (&'static str, String) {
        match self {
            Self::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                parts.iter().for_each(|part| context.update(part));
                ("v1", BASE64_STANDARD.encode(context.sign()))
            }
            Self::Ed25519(pair) => ("v1a", BASE64_STANDARD.encode(pair.sign(&parts.concat()))),
        }
    }
}

/// Signs requests, with each of its keys.
pub(super) struct Signer(Vec<Key>);

impl Signer {
    /// Reads the keys. The error has the place of the one that is wrong.
    pub(super) fn read<'k>(
        keys: impl IntoIterator<Item = &'k str>,
    ) -> Result<Self, (usize, InvalidKey)> {
        let read = |(at, key)| Key::read(key).map_err(|error| (at, error));
        keys.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The header: a signature of each key, separated by blanks. None where there is no key.
    pub(super) fn signature(&self, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
        let about = format!("{id}.{seconds}.");
        let mut header = String::new();
        for key in &self.0 {
            let (version, signature) = key.sign([about.as_bytes(), body]);
            let blank = if header.is_empty() { "" } else { " " };
            // Writing into a text does not fail.
            let _ = write!(header, "{blank}{version},{signature}");
        }
        (!header.is_empty()).then_some(header)
    }
}

/// Without the keys.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("keys", &self.0.len()).finish()
    }
}

/// A key cannot be used. Tells nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidKey {
    #[error("begins neither with `whsec_` (HMAC-SHA256) nor with `whsk_` (ed25519)")]
    Prefix,
    #[error("is not base64 after its prefix")]
    Base64,
    #[error("is a secret of {0} bytes; it must have from {least} to {most}", least = SECRET_BYTES.start(), most = SECRET_BYTES.end())]
    SecretBytes(usize),
    #[error("is an ed25519 key of {0} bytes; it must have 32, or 64 with the public key")]
    KeyBytes(usize),
    #[error("is an ed25519 key whose public key is not its own")]
    Pair,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const PRIVATE: &str = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
    const V1: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const V1A: &str = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag==";

    fn signed(keys: &[&str]) -> Option<String> {
        let (id, seconds) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        let signer = Signer::read(keys.iter().copied()).unwrap();
        signer.signature(id, seconds, br#"{"test": 2432232314}"#)
    }

    /// Those of the specification's own libraries.
    #[test]
    fn the_vectors_of_standard_webhooks_come_out() {
        assert_eq!(signed(&[SECRET]).as_deref(), Some(V1));
        assert_eq!(signed(&[PRIVATE]).as_deref(), Some(V1A));
    }

    /// Holds fault 40.
    #[test]
    fn while_secrets_change_there_is_a_signature_of_each() {
        let other = format!("whsec_{}", BASE64_STANDARD.encode([7; 32]));
        let both = signed(&[SECRET, &other]).unwrap();
        let alone = signed(&[&other]).unwrap();
        assert_eq!(both, format!("{V1} {alone}"));
        assert_eq!(signed(&[SECRET, PRIVATE]).unwrap(), format!("{V1} {V1A}"));
        assert_eq!(signed(&[]), None);
    }

    #[test]
    fn a_key_is_held_to_its_size() {
        let read = |prefix: &str, bytes: usize| {
            let key = format!("{prefix}{}", BASE64_STANDARD.encode(vec![1; bytes]));
            Key::read(&key).map(drop)
        };
        for (bytes, fits) in [(0, false), (23, false), (24, true), (64, true), (65, false)] {
            let expected = if fits { Ok(()) } else { Err(InvalidKey::SecretBytes(bytes)) };
            assert_eq!(read("whsec_", bytes), expected);
        }
        for (bytes, fits) in [(31, false), (32, true), (33, false), (63, false), (65, false)] {
            let expected = if fits { Ok(()) } else { Err(InvalidKey::KeyBytes(bytes)) };
            assert_eq!(read("whsk_", bytes), expected);
        }
        assert_eq!(read("whsk_", 64), Err(InvalidKey::Pair));
        assert_eq!(read("", 32), Err(InvalidKey::Prefix));
        assert_eq!(Key::read("whsec_?").map(drop), Err(InvalidKey::Base64));
        // Without its padding too.
        assert!(Key::read(PRIVATE.trim_end_matches('=')).is_ok());
    }

    #[test]
    fn no_key_is_printed() {
        let signer = Signer::read([SECRET]).unwrap();
        assert_eq!(format!("{signer:?}"), "Signer { keys: 1 }");
    }
}
