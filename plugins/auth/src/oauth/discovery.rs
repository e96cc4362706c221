//! Metadata of an issuer: its endpoints and its keys.

use std::sync::Arc;

use jsonwebtoken::jwk::Jwk;
use linchpin::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::preset::Plain;
use super::wire::Wire;
use super::{Dialect, Failure};

/// Milliseconds for which metadata and keys are cached.
const CACHE_MILLIS: i64 = 3_600_000;
/// Minimum milliseconds between two requests for an unknown key.
const KEY_REQUEST_INTERVAL: i64 = 60_000;
/// Milliseconds without a request after a failure.
const PAUSE_AFTER_FAILURE: i64 = 5_000;

/// The placeholder of the tenant in an issuer of Microsoft.
pub(super) const TENANT: &str = "{tenantid}";

/// The used members of `/.well-known/openid-configuration`.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// The endpoints of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    /// For Microsoft it contains [`TENANT`], unless the tenant is fixed.
    pub(super) issuer: String,
    pub(super) authorize: String,
    pub(super) token: String,
    pub(super) userinfo: Option<String>,
    jwks: String,
    /// Whether the client secret is sent in a header instead of the body.
    pub(super) basic: bool,
    /// Whether each result contains the issuer.
    pub(super) response_has_issuer: bool,
}

impl Metadata {
    /// The endpoints of a provider without a metadata document.
    pub(super) fn fixed(plain: &Plain) -> Self {
        Self {
            issuer: String::new(),
            authorize: plain.authorize.clone(),
            token: plain.token.clone(),
            userinfo: None,
            jwks: String::new(),
            basic: plain.basic,
            response_has_issuer: false,
        }
    }

    /// Whether a result may be from this issuer.
    pub(super) fn may_be(&self, issuer: &str) -> bool {
        match self.issuer.split_once(TENANT) {
            Some((front, back)) => issuer
                .strip_prefix(front)
                .and_then(|rest| rest.strip_suffix(back))
                .is_some_and(is_tenant),
            None => issuer == self.issuer,
        }
    }

    /// The issuer of a tenant.
    pub(super) fn issuer_of(&self, tenant: &str) -> String {
        self.issuer.replace(TENANT, tenant)
    }
}

/// Whether the text is a tenant id in the form that tokens contain.
pub(super) fn is_tenant(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// A key of an issuer.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) kid: Option<String>,
    /// The issuer of the key, which Microsoft reports. It may contain [`TENANT`].
    pub(super) issuer: Option<String>,
    pub(super) jwk: Jwk,
}

pub(super) type Keys = Arc<Vec<Key>>;

/// The cached metadata of an issuer.
#[derive(Debug, Default)]
pub(super) struct Issuer {
    document: Mutex<CachedMetadata<Arc<Metadata>>>,
    keys: Mutex<(CachedMetadata<Keys>, Option<Timestamp>)>,
}

#[derive(Debug)]
struct CachedMetadata<T> {
    known: Option<(Timestamp, T)>,
    failed: Option<(Timestamp, Failure)>,
}

impl<T> Default for CachedMetadata<T> {
    fn default() -> Self {
        Self {
            known: None,
            failed: None,
        }
    }
}

impl<T: Clone> CachedMetadata<T> {
    /// Returns the cached metadata or reads it. Concurrent requests wait for one read.
    async fn get_or_read(
        &mut self,
        now: Timestamp,
        read: impl AsyncFnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match (&self.known, &self.failed) {
            (Some((at, known)), _) if within(*at, now, CACHE_MILLIS) => return Ok(known.clone()),
            (_, Some((at, failure))) if within(*at, now, PAUSE_AFTER_FAILURE) => {
                return Err(*failure);
            }
            _ => {}
        }
        match read().await {
            Ok(known) => {
                *self = Self {
                    known: Some((now, known.clone())),
                    failed: None,
                };
                Ok(known)
            }
            Err(failure) => {
                self.failed = Some((now, failure));
                Err(failure)
            }
        }
    }
}

fn within(at: Timestamp, now: Timestamp, millis: i64) -> bool {
    (0..millis).contains(&(now.millis() - at.millis()))
}

impl Issuer {
    /// # Errors
    /// If the document cannot be read, or if it is from another issuer.
    pub(super) async fn metadata(
        &self,
        wire: &Wire,
        issuer: &str,
        dialect: &Dialect,
        now: Timestamp,
    ) -> Result<Arc<Metadata>, Failure> {
        let mut document = self.document.lock().await;
        document
            .get_or_read(now, async || {
                discover(wire, issuer, dialect).await.map(Arc::new)
            })
            .await
    }

    /// Returns the keys of an issuer. If the key with this id is unknown, they are read again.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) async fn keys(
        &self,
        wire: &Wire,
        metadata: &Metadata,
        kid: Option<&str>,
        now: Timestamp,
    ) -> Result<Keys, Failure> {
        let mut cached = self.keys.lock().await;
        let (keys, last_key_request) = &mut *cached;
        let known = keys
            .get_or_read(now, async || read_keys(wire, &metadata.jwks).await)
            .await?;
        let is_known =
            kid.is_none_or(|kid| known.iter().any(|key| key.kid.as_deref() == Some(kid)));
        if is_known || last_key_request.is_some_and(|at| within(at, now, KEY_REQUEST_INTERVAL)) {
            return Ok(known);
        }
        // The issuer may have changed its keys. Invented key ids cause at most one request per
        // minute.
        *last_key_request = Some(now);
        // The known keys stay valid if the new ones cannot be read.
        let mut renewed = CachedMetadata::default();
        let read = renewed
            .get_or_read(now, async || read_keys(wire, &metadata.jwks).await)
            .await?;
        *keys = renewed;
        Ok(read)
    }
}

async fn discover(wire: &Wire, issuer: &str, dialect: &Dialect) -> Result<Metadata, Failure> {
    let document: Document = wire
        .read(
            &format!(
                "{}/.well-known/openid-configuration",
                issuer.trim_end_matches('/')
            ),
            None,
        )
        .await?;
    let is_same_issuer = match dialect {
        Dialect::Microsoft { tenant } => is_of_microsoft(&document.issuer, issuer, tenant),
        _ => document.issuer == issuer,
    };
    if !is_same_issuer {
        return Err(Failure("the metadata document is from another issuer"));
    }
    if let Dialect::Below(base) = dialect {
        let below = |url: &String| {
            url.strip_prefix(base.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        };
        let all = [
            Some(&document.authorization_endpoint),
            Some(&document.token_endpoint),
            Some(&document.jwks_uri),
            document.userinfo_endpoint.as_ref(),
        ];
        if !all.into_iter().flatten().all(below) {
            return Err(Failure(
                "an endpoint of the issuer is not below its base URL",
            ));
        }
    }
    let methods = document.token_endpoint_auth_methods_supported;
    Ok(Metadata {
        issuer: document.issuer,
        authorize: document.authorization_endpoint,
        token: document.token_endpoint,
        userinfo: document.userinfo_endpoint,
        jwks: document.jwks_uri,
        // The standard's default for a document without this list is `client_secret_basic`.
        basic: methods
            .is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic")),
        response_has_issuer: document.authorization_response_iss_parameter_supported,
    })
}

/// Whether a metadata document is from Microsoft's `tenant`. Its issuer contains the id of the
/// tenant, or a placeholder if `tenant` means many tenants (such as `common`).
fn is_of_microsoft(document_issuer: &str, configured_issuer: &str, tenant: &str) -> bool {
    let Some((front, back)) = configured_issuer.split_once(tenant) else {
        return false;
    };
    let document_tenant = document_issuer
        .strip_prefix(front)
        .and_then(|rest| rest.strip_suffix(back));
    match tenant {
        "common" | "organizations" => document_tenant == Some(TENANT),
        "consumers" => {
            document_tenant == Some(TENANT) || document_tenant == Some(super::preset::CONSUMERS)
        }
        id if is_tenant(id) => document_tenant == Some(id),
        // `tenant` is a domain of the tenant; the document contains the id instead.
        _ => document_tenant.is_some_and(is_tenant),
    }
}

async fn read_keys(wire: &Wire, url: &str) -> Result<Keys, Failure> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = wire.read(url, None).await?;
    let text = |key: &Value, name: &str| key.get(name).and_then(Value::as_str).map(str::to_owned);
    // A key that cannot be parsed is skipped: its type is not supported here.
    let key = |value: Value| {
        let usable = text(&value, "use").is_none_or(|usage| usage == "sig");
        let (kid, issuer) = (text(&value, "kid"), text(&value, "issuer"));
        usable
            .then(|| serde_json::from_value(value).ok())
            .flatten()
            .map(|jwk| Key { kid, issuer, jwk })
    };
    Ok(Arc::new(set.keys.into_iter().filter_map(key).collect()))
}
