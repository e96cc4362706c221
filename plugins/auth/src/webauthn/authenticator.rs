//! Data of the authenticator (6.1, 6.5.4): bytes at fixed places, then CBOR. Duplicate members and
//! trailing data are refused.

use minicbor::Decoder;
use minicbor::data::Type;

use super::Fault;
use super::key::{PublicKey, set_once};

const RP_ID_HASH: usize = 32;
const AAGUID: usize = 16;
/// Maximum length of a credential id (7.1, step 25).
const MAX_ID_BYTES: usize = 1023;

/// The flags in authenticator data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // they are bits
pub(crate) struct Flags {
    pub(crate) user_present: bool,
    pub(crate) user_verified: bool,
    pub(crate) backup_eligible: bool,
    pub(crate) backed_up: bool,
}

/// Authenticator data.
#[derive(Debug)]
pub(super) struct AuthenticatorData<'a> {
    pub(super) rp_id_hash: [u8; RP_ID_HASH],
    pub(super) flags: Flags,
    pub(super) sign_count: u32,
    pub(super) attested: Option<Attested<'a>>,
}

/// The new credential in the data.
#[derive(Debug)]
pub(super) struct Attested<'a> {
    pub(super) credential_id: &'a [u8],
    /// The COSE key in its original bytes.
    pub(super) public_key: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    /// # Errors
    /// If the data is malformed.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Fault> {
        let malformed = Fault("unreadable authenticator data");
        let (rp_id_hash, rest) = bytes.split_first_chunk::<RP_ID_HASH>().ok_or(malformed)?;
        let ([bits], rest) = rest.split_first_chunk::<1>().ok_or(malformed)?;
        let (count, mut rest) = rest.split_first_chunk::<4>().ok_or(malformed)?;
        let has_bit = |bit: u8| bits & (1 << bit) != 0;
        let attested = if has_bit(6) {
            let (attested, after) = Attested::read(rest)?;
            rest = after;
            Some(attested)
        } else {
            None
        };
        if has_bit(7) {
            // Extensions are ignored, because none was requested.
            let mut extensions = Decoder::new(rest);
            if !matches!(extensions.datatype(), Ok(Type::Map)) || extensions.skip().is_err() {
                return Err(malformed);
            }
            rest = rest.get(extensions.position()..).ok_or(malformed)?;
        }
        if !rest.is_empty() {
            return Err(malformed);
        }
        Ok(Self {
            rp_id_hash: *rp_id_hash,
            flags: Flags {
                user_present: has_bit(0),
                user_verified: has_bit(2),
                backup_eligible: has_bit(3),
                backed_up: has_bit(4),
            },
            sign_count: u32::from_be_bytes(*count),
            attested,
        })
    }
}

impl<'a> Attested<'a> {
    fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Fault> {
        let malformed = Fault("unreadable credential");
        let (_, rest) = bytes.split_first_chunk::<AAGUID>().ok_or(malformed)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(malformed)?;
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 || length > MAX_ID_BYTES {
            return Err(malformed);
        }
        let (credential_id, rest) = rest.split_at_checked(length).ok_or(malformed)?;
        let mut key = Decoder::new(rest);
        if !matches!(key.datatype(), Ok(Type::Map)) || key.skip().is_err() {
            return Err(malformed);
        }
        let (public_key, rest) = rest.split_at_checked(key.position()).ok_or(malformed)?;
        Ok((
            Self {
                credential_id,
                public_key,
            },
            rest,
        ))
    }
}

/// An attestation object.
#[derive(Debug)]
pub(super) struct Attestation<'a> {
    pub(super) authenticator_data: &'a [u8],
    format: &'a str,
    statement: &'a [u8],
}

impl<'a> Attestation<'a> {
    /// # Errors
    /// If the object is malformed.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Fault> {
        let unreadable = Fault("unreadable attestation");
        let mut decoder = Decoder::new(bytes);
        let (mut format, mut statement, mut data) = (None, None, None);
        let members = decoder.map().ok().flatten().ok_or(unreadable)?;
        for _ in 0..members {
            let is_accepted = match decoder.str().map_err(|_| unreadable)? {
                "fmt" => set_once(&mut format, decoder.str().map_err(|_| unreadable)?),
                "authData" => set_once(&mut data, decoder.bytes().map_err(|_| unreadable)?),
                "attStmt" => {
                    let start = decoder.position();
                    decoder.skip().map_err(|_| unreadable)?;
                    set_once(
                        &mut statement,
                        bytes.get(start..decoder.position()).ok_or(unreadable)?,
                    )
                }
                _ => decoder.skip().is_ok(),
            };
            if !is_accepted {
                return Err(unreadable);
            }
        }
        match (format, statement, data) {
            (Some(format), Some(statement), Some(authenticator_data))
                if decoder.position() == bytes.len() =>
            {
                Ok(Self {
                    authenticator_data,
                    format,
                    statement,
                })
            }
            _ => Err(unreadable),
        }
    }

    /// Checks the attestation statement. None was requested, so it must be empty or a self
    /// attestation; browsers remove all others (5.1.3).
    ///
    /// # Errors
    /// If it is of another kind or invalid.
    pub(super) fn check_statement(&self, key: &PublicKey<'_>, signed: &[u8]) -> Result<(), Fault> {
        let wrong = Fault("attestation");
        let mut decoder = Decoder::new(self.statement);
        let members = decoder.map().ok().flatten().ok_or(wrong)?;
        match self.format {
            "none" if members == 0 => Ok(()),
            "packed" => {
                let (mut algorithm, mut signature) = (None, None);
                for _ in 0..members {
                    let is_accepted = match decoder.str().map_err(|_| wrong)? {
                        "alg" => set_once(&mut algorithm, decoder.i64().map_err(|_| wrong)?),
                        "sig" => set_once(&mut signature, decoder.bytes().map_err(|_| wrong)?),
                        // A chain of certificates.
                        _ => false,
                    };
                    if !is_accepted {
                        return Err(wrong);
                    }
                }
                if algorithm != Some(key.algorithm()) {
                    return Err(wrong);
                }
                key.verify(signed, signature.ok_or(wrong)?)
            }
            _ => Err(wrong),
        }
    }
}
