//! `WebAuthn`, the server's side: parsing and checks of browser responses, without the store.
//!
//! The steps follow `WebAuthn` Level 3, 7.1 (registration) and 7.2 (assertion), for attestation
//! `none`. Each error is a [`Fault`]; its text is written to the audit log and never sent to the
//! client.

mod authenticator;
mod client;
mod key;
mod response;

use linchpin::Result as AppResult;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) use authenticator::Flags;
use authenticator::{Attestation, AuthenticatorData};
pub(crate) use client::Ceremony;
use client::check_client_data;
use key::PublicKey;
pub(crate) use response::{Assertion, Registration};

use crate::env::Env;

/// The requested algorithms in order of preference: ECDSA on P-256, Ed25519, RSA with PKCS#1 v1.5.
pub(crate) const ALGORITHMS: [i64; 3] = [key::ES256, key::EDDSA, key::RS256];

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) &'static str);

/// The site of the passkeys: its domain and the origins that may use them.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) id: String,
    id_hash: [u8; 32],
    /// Serialised origins, as browsers report them.
    origins: Vec<String>,
}

/// A new credential.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) credential_id: Vec<u8>,
    /// The COSE key.
    pub(crate) public_key: Vec<u8>,
    pub(crate) sign_count: u32,
    pub(crate) flags: Flags,
}

/// A use of a credential.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asserted {
    pub(crate) sign_count: u32,
    pub(crate) flags: Flags,
}

impl Site {
    pub(crate) fn new(id: &str, origins: &[String]) -> Self {
        Self {
            id: id.to_owned(),
            id_hash: Sha256::digest(id.as_bytes()).into(),
            origins: origins.to_vec(),
        }
    }

    /// Checks a registration (7.1).
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) fn check_registration(
        &self,
        answer: &Registration,
        challenge: &[u8],
        must_verify: bool,
    ) -> Result<Registered, Fault> {
        check_client_data(
            &answer.client_data,
            Ceremony::Create,
            challenge,
            &self.origins,
        )?;
        let attestation = Attestation::read(&answer.attestation_object)?;
        let data = AuthenticatorData::read(attestation.authenticator_data)?;
        self.check_authenticator_data(&data, must_verify)?;
        let attested = data.attested.ok_or(Fault("no credential"))?;
        if attested.credential_id != answer.id {
            return Err(Fault("another credential"));
        }
        let key = PublicKey::read(attested.public_key)?;
        let signed = [
            attestation.authenticator_data,
            &Sha256::digest(&answer.client_data),
        ]
        .concat();
        attestation.check_statement(&key, &signed)?;
        Ok(Registered {
            credential_id: attested.credential_id.to_vec(),
            public_key: attested.public_key.to_vec(),
            sign_count: data.sign_count,
            flags: data.flags,
        })
    }

    /// Checks an assertion (7.2), except the owner of the credential and its signature counter,
    /// which the store knows.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) fn check_assertion(
        &self,
        answer: &Assertion,
        challenge: &[u8],
        public_key: &[u8],
        must_verify: bool,
    ) -> Result<Asserted, Fault> {
        check_client_data(&answer.client_data, Ceremony::Get, challenge, &self.origins)?;
        let data = AuthenticatorData::read(&answer.authenticator_data)?;
        if data.attested.is_some() {
            return Err(Fault("attested credential data in an assertion"));
        }
        self.check_authenticator_data(&data, must_verify)?;
        let signed = [
            answer.authenticator_data.as_slice(),
            &Sha256::digest(&answer.client_data),
        ]
        .concat();
        PublicKey::read(public_key)?.verify(&signed, &answer.signature)?;
        Ok(Asserted {
            sign_count: data.sign_count,
            flags: data.flags,
        })
    }

    fn check_authenticator_data(
        &self,
        data: &AuthenticatorData<'_>,
        must_verify: bool,
    ) -> Result<(), Fault> {
        let flags = data.flags;
        match () {
            () if data.rp_id_hash != self.id_hash => Err(Fault("another site")),
            () if !flags.user_present => Err(Fault("nobody present")),
            () if must_verify && !flags.user_verified => Err(Fault("user not verified")),
            () if flags.backed_up && !flags.backup_eligible => {
                Err(Fault("backed up although not eligible for backup"))
            }
            () => Ok(()),
        }
    }
}

/// A challenge: 32 random bytes.
///
/// # Errors
/// If the random source fails.
pub(crate) fn challenge(env: &Env) -> AppResult<[u8; 32]> {
    env.random::<32>()
}

/// The list of algorithms in options.
pub(crate) fn algorithms() -> Value {
    ALGORITHMS
        .iter()
        .map(|alg| json!({ "type": "public-key", "alg": alg }))
        .collect()
}

#[cfg(test)]
mod tests;
