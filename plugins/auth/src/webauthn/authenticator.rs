//! Data of the authenticator (6.1, 6.5.4): bytes at fixed places, then CBOR. Duplicate or
//! additional data is refused.

use minicbor::Decoder;
use minicbor::data::Type;

use super::Fault;
use super::key::{PublicKey, once};

const RP_ID_HASH: usize = 32;
const AAGUID: usize = 16;
/// Maximum length of a credential id (7.1, step 25).
const LONGEST_ID: usize = 1023;

/// The authenticator's data about a use.
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
        let short = Fault("unreadable authenticator data");
        let (rp_id_hash, rest) = bytes.split_first_chunk::<RP_ID_HASH>().ok_or(short)?;
        let ([bits], rest) = rest.split_first_chunk::<1>().ok_or(short)?;
        let (count, mut rest) = rest.split_first_chunk::<4>().ok_or(short)?;
        let has = |bit: u8| bits & (1 << bit) != 0;
        let attested = if has(6) {
            let (attested, behind) = Attested::read(rest)?;
            rest = behind;
            Some(attested)
        } else {
            None
        };
        if has(7) {
            // Extensions are ignored, because none was requested.
            let mut extensions = Decoder::new(rest);
            if !matches!(extensions.datatype(), Ok(Type::Map)) || extensions.skip().is_err() {
                return Err(short);
            }
            rest = rest.get(extensions.position()..).ok_or(short)?;
        }
        if !rest.is_empty() {
            return Err(short);
        }
        Ok(Self {
            rp_id_hash: *rp_id_hash,
            flags: Flags {
                user_present: has(0),
                user_verified: has(2),
                backup_eligible: has(3),
                backed_up: has(4),
            },
            sign_count: u32::from_be_bytes(*count),
            attested,
        })
    }
}

impl<'a> Attested<'a> {
    fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Fault> {
        let short = Fault("unreadable credential");
        let (_, rest) = bytes.split_first_chunk::<AAGUID>().ok_or(short)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(short)?;
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 || length > LONGEST_ID {
            return Err(short);
        }
        let (credential_id, rest) = rest.split_at_checked(length).ok_or(short)?;
        let mut key = Decoder::new(rest);
        if !matches!(key.datatype(), Ok(Type::Map)) || key.skip().is_err() {
            return Err(short);
        }
        let (public_key, rest) = rest.split_at_checked(key.position()).ok_or(short)?;
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
        let mut at = Decoder::new(bytes);
        let (mut format, mut statement, mut data) = (None, None, None);
        let members = at.map().ok().flatten().ok_or(unreadable)?;
        for _ in 0..members {
            let fresh = match at.str().map_err(|_| unreadable)? {
                "fmt" => once(&mut format, at.str().map_err(|_| unreadable)?),
                "authData" => once(&mut data, at.bytes().map_err(|_| unreadable)?),
                "attStmt" => {
                    let start = at.position();
                    at.skip().map_err(|_| unreadable)?;
                    once(
                        &mut statement,
                        bytes.get(start..at.position()).ok_or(unreadable)?,
                    )
                }
                _ => at.skip().is_ok(),
            };
            if !fresh {
                return Err(unreadable);
            }
        }
        match (format, statement, data) {
            (Some(format), Some(statement), Some(authenticator_data))
                if at.position() == bytes.len() =>
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
    pub(super) fn judge_statement(&self, key: &PublicKey<'_>, signed: &[u8]) -> Result<(), Fault> {
        let wrong = Fault("attestation");
        let mut at = Decoder::new(self.statement);
        let members = at.map().ok().flatten().ok_or(wrong)?;
        match self.format {
            "none" if members == 0 => Ok(()),
            "packed" => {
                let (mut algorithm, mut signature) = (None, None);
                for _ in 0..members {
                    let fresh = match at.str().map_err(|_| wrong)? {
                        "alg" => once(&mut algorithm, at.i64().map_err(|_| wrong)?),
                        "sig" => once(&mut signature, at.bytes().map_err(|_| wrong)?),
                        // A chain of certificates.
                        _ => false,
                    };
                    if !fresh {
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
