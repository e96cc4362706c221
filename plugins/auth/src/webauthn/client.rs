//! Client data: the request, the origin and the operation that the browser reports.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Fault;
use crate::secret::same;

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ceremony {
    Create,
    Get,
}

impl Ceremony {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "webauthn.create",
            Self::Get => "webauthn.get",
        }
    }
}

/// `CollectedClientData` (5.8.1). Browsers may add members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
    top_origin: Option<IgnoredAny>,
}

/// # Errors
/// The reason for a refusal.
pub(super) fn check_client_data(
    bytes: &[u8],
    ceremony: Ceremony,
    challenge: &[u8],
    origins: &[String],
) -> Result<(), Fault> {
    let data: ClientData =
        serde_json::from_slice(bytes).map_err(|_| Fault("unreadable client data"))?;
    let presented = URL_SAFE_NO_PAD
        .decode(&data.challenge)
        .map_err(|_| Fault("another challenge"))?;
    match () {
        () if data.r#type != ceremony.name() => Err(Fault("another ceremony")),
        () if !same(&presented, challenge) => Err(Fault("another challenge")),
        () if !origins.contains(&data.origin) => Err(Fault("another origin")),
        // In a frame of another site, the user cannot see which page requests the passkey.
        () if data.cross_origin || data.top_origin.is_some() => {
            Err(Fault("a frame of another origin"))
        }
        () => Ok(()),
    }
}
