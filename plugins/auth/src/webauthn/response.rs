//! Responses of browsers in the form of `PublicKeyCredential.toJSON()` (5.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Fault;

/// The transports of the standard (5.8.4).
const TRANSPORTS: [&str; 6] = ["ble", "hybrid", "internal", "nfc", "smart-card", "usb"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential<R> {
    id: String,
    raw_id: Option<String>,
    r#type: String,
    response: R,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttestationResponse {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    attestation_object: String,
    transports: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssertionResponse {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    authenticator_data: String,
    signature: String,
    user_handle: Option<String>,
}

/// The response of `navigator.credentials.create()`.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) id: Vec<u8>,
    pub(crate) client_data: Vec<u8>,
    pub(crate) attestation_object: Vec<u8>,
    /// Known transports, without duplicates, in the standard's order.
    pub(crate) transports: Vec<String>,
}

/// The response of `navigator.credentials.get()`.
#[derive(Clone, Debug)]
pub(crate) struct Assertion {
    pub(crate) id: Vec<u8>,
    pub(crate) client_data: Vec<u8>,
    pub(crate) authenticator_data: Vec<u8>,
    pub(crate) signature: Vec<u8>,
    pub(crate) user_handle: Option<Vec<u8>>,
}

impl Registration {
    /// # Errors
    /// If it is malformed.
    pub(crate) fn read(sent: Value) -> Result<Self, Fault> {
        let (id, response) = credential::<AttestationResponse>(sent)?;
        let reported = response.transports.unwrap_or_default();
        Ok(Self {
            id,
            client_data: bytes(&response.client_data)?,
            attestation_object: bytes(&response.attestation_object)?,
            transports: TRANSPORTS
                .iter()
                .filter(|known| reported.iter().any(|name| name == *known))
                .map(|&known| known.to_owned())
                .collect(),
        })
    }
}

impl Assertion {
    /// # Errors
    /// If it is malformed.
    pub(crate) fn read(sent: Value) -> Result<Self, Fault> {
        let (id, response) = credential::<AssertionResponse>(sent)?;
        Ok(Self {
            id,
            client_data: bytes(&response.client_data)?,
            authenticator_data: bytes(&response.authenticator_data)?,
            signature: bytes(&response.signature)?,
            user_handle: response.user_handle.as_deref().map(bytes).transpose()?,
        })
    }
}

fn credential<R: DeserializeOwned>(sent: Value) -> Result<(Vec<u8>, R), Fault> {
    let sent: Credential<R> = serde_json::from_value(sent).map_err(|_| Fault("unreadable"))?;
    if sent.r#type != "public-key" || sent.raw_id.is_some_and(|raw| raw != sent.id) {
        return Err(Fault("no public key"));
    }
    Ok((bytes(&sent.id)?, sent.response))
}

fn bytes(text: &str) -> Result<Vec<u8>, Fault> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| Fault("unreadable"))
}
