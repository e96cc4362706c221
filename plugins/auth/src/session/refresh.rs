//! Refresh tokens. Each contains its session and its generation with a MAC. So no token is stored,
//! and every earlier one is recognised.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::Timestamp;

use crate::entities::Session;
use crate::keys::derive::{Purpose, Ring};
use crate::secret::same;

const VERSION: &str = "v1";
const HANDLE_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
/// Maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 256;

/// Creates the token of a session's generation, with the newest secret.
pub(crate) fn make(ring: &Ring, session: &Session, generation: i64) -> Option<String> {
    let handle = URL_SAFE_NO_PAD
        .decode(&session.handle)
        .ok()
        .filter(|handle| handle.len() == HANDLE_BYTES)?;
    let number = u32::try_from(generation).ok()?;
    let mac = mac_of(ring, ring.kid(), &handle, number, &session.family_seed)?;
    let mut bytes = handle;
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&mac);
    Some(format!(
        "{VERSION}.{}.{}",
        ring.kid(),
        URL_SAFE_NO_PAD.encode(bytes)
    ))
}

fn mac_of(
    ring: &Ring,
    kid: &str,
    handle: &[u8],
    generation: u32,
    seed: &str,
) -> Option<[u8; MAC_BYTES]> {
    let key = ring.key_of(kid, Purpose::Refresh)?;
    Some(key.mac(&[handle, &generation.to_be_bytes(), seed.as_bytes()]))
}

/// A parsed token that is not verified yet.
#[derive(Debug)]
pub(crate) struct Presented {
    kid: String,
    handle: Vec<u8>,
    generation: u32,
    mac: Vec<u8>,
}

impl Presented {
    /// Parses a token.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let mut parts = token.split('.');
        let (Some(VERSION), Some(kid), Some(body), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(body)
            .ok()
            .filter(|bytes| bytes.len() == HANDLE_BYTES + 4 + MAC_BYTES)?;
        let (handle, rest) = bytes.split_at(HANDLE_BYTES);
        let (number, mac) = rest.split_at(4);
        let generation = u32::from_be_bytes(number.try_into().ok()?);
        Some(Self {
            kid: kid.to_owned(),
            handle: handle.to_vec(),
            generation,
            mac: mac.to_vec(),
        })
    }

    /// The handle of its session.
    pub(crate) fn handle(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.handle)
    }

    /// The number of tokens before it.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether the token was created for this session.
    pub(crate) fn is_of(&self, ring: &Ring, session: &Session) -> bool {
        let expected = mac_of(
            ring,
            &self.kid,
            &self.handle,
            self.generation,
            &session.family_seed,
        );
        expected.is_some_and(|expected| same(&expected, &self.mac))
    }

    /// The state of a token of this session.
    pub(crate) fn state(
        &self,
        session: &Session,
        now: Timestamp,
        grace_seconds: u64,
    ) -> TokenState {
        let generation = i64::from(self.generation);
        if generation == session.generation {
            return TokenState::Current;
        }
        let grace = i64::try_from(grace_seconds).unwrap_or(i64::MAX / 1000) * 1000;
        let within = now.millis() - session.rotated_at.millis() <= grace;
        if generation == session.generation - 1 && within {
            TokenState::JustRotated
        } else {
            TokenState::Reused
        }
    }
}

/// The state of a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenState {
    /// Current: the client gets a new pair.
    Current,
    /// Just rotated, by another request of the same client: it gets the same successor.
    JustRotated,
    /// Used twice, so two parties have tokens of the family: the session ends.
    Reused,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(generation: i64) -> Session {
        let at = Timestamp::from_millis(1_000_000);
        Session {
            handle: URL_SAFE_NO_PAD.encode([7; HANDLE_BYTES]),
            sid_version: 0,
            sid_hash: String::new(),
            epoch: 0,
            user_id: "u".into(),
            family_seed: "seed".into(),
            generation,
            rotated_at: at,
            created_at: at,
            auth_at: at,
            step_up_at: None,
            step_up_by: None,
            proved_factors: None,
            last_active_at: at,
            expires_at: None,
            ip: None,
            user_agent: None,
            amr: Vec::new(),
            aal: 1,
            custom_claims: None,
            version: 1,
        }
    }

    #[test]
    fn every_generation_is_recognised_and_no_other_token() {
        let ring = Ring::new(["a secret of tests that has 32 bytes"]).unwrap();
        let now = session(5);
        for generation in 0..8 {
            let token = make(&ring, &now, generation).unwrap();
            let presented = Presented::parse(&token).unwrap();
            assert!(
                presented.is_of(&ring, &now) && presented.handle() == now.handle,
                "{generation}"
            );
            let other = Session {
                family_seed: "another".into(),
                ..session(5)
            };
            assert!(!presented.is_of(&ring, &other));
            let with_new_secret = Ring::new([
                "a new secret of tests of 32 bytes!!",
                "a secret of tests that has 32 bytes",
            ])
            .unwrap();
            assert!(
                presented.is_of(&with_new_secret, &now)
                    && make(&with_new_secret, &now, generation).unwrap() != token
            );
        }
        let token = make(&ring, &now, 5).unwrap();
        for i in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[i] = if bytes[i] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(
                !Presented::parse(&changed).is_some_and(|p| p.is_of(&ring, &now)),
                "{i}"
            );
        }
        for bad in [
            "",
            "v1",
            "v1..",
            "v2.a.b",
            "v1.a.b.c",
            &"x".repeat(10_000),
            &format!("{token}."),
        ] {
            assert!(
                Presented::parse(bad).is_none_or(|p| !p.is_of(&ring, &now)),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_the_previous_refresh_token_has_a_grace_period() {
        let ring = Ring::new(["a secret of tests that has 32 bytes"]).unwrap();
        let state = |generation: i64, after: i64| {
            let now = session(5);
            let at = Timestamp::from_millis(now.rotated_at.millis() + after);
            Presented::parse(&make(&ring, &now, generation).unwrap())
                .unwrap()
                .state(&now, at, 10)
        };
        assert_eq!(
            (state(5, 0), state(5, 1_000_000)),
            (TokenState::Current, TokenState::Current)
        );
        assert_eq!(
            (state(4, 0), state(4, 10_000), state(4, 10_001)),
            (
                TokenState::JustRotated,
                TokenState::JustRotated,
                TokenState::Reused
            )
        );
        assert_eq!(
            (state(3, 0), state(0, 0), state(6, 0)),
            (TokenState::Reused, TokenState::Reused, TokenState::Reused)
        );
    }
}
