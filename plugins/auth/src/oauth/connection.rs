//! The providers of an app, and what is remembered of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin::{Result, Timestamp};

use super::discovery::{Issuer, Metadata};
use super::grant::Authorization;
use super::wire::Wire;
use super::{Failure, Identity, grant, id_token, preset, profile};
use crate::secret::SecretText;

/// A provider as it was set up.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    /// Stands in paths.
    pub(crate) id: String,
    /// What people know it by.
    pub(crate) name: String,
    pub(crate) client_id: String,
    pub(crate) secret: ClientProof,
    /// Where it sends people back to.
    pub(crate) callback: String,
    pub(crate) scopes: Vec<String>,
    /// Whether an address that it has verified is as good as verified here.
    pub(crate) trust_email: bool,
    /// Whether it posts its answer as a form.
    pub(crate) form_post: bool,
    pub(crate) kind: Kind,
    /// Whether it may be a server of this machine, without TLS.
    pub(crate) loopback: bool,
}

/// How the app proves to a provider that it is the app.
#[derive(Clone, Debug)]
pub(crate) enum ClientProof {
    /// By PKCE alone.
    None,
    Secret(SecretText),
    /// By a token that it signs anew for each call.
    Apple {
        team_id: String,
        key_id: String,
        private_key: SecretText,
    },
}

/// What a provider speaks.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// OpenID Connect.
    Oidc { issuer: String, dialect: Dialect },
    /// OAuth 2, with a way of its own to ask who somebody is.
    Plain(preset::Plain),
}

/// Where an issuer differs from the standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Standard,
    /// Leaves the nonce out of its tokens; PKCE binds the code to the browser all the same.
    NoNonce,
    /// Everything of it is below one address.
    Below(String),
    /// One set of keys for issuers that differ by tenant.
    Microsoft {
        tenant: String,
    },
}

/// A provider with what is remembered of it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) provider: Provider,
    wire: Wire,
    issuer: Issuer,
}

/// Every provider of an app.
#[derive(Debug, Default)]
pub(crate) struct Oauth(BTreeMap<String, Arc<Connection>>);

impl Oauth {
    /// # Errors
    /// When no TLS can be had.
    pub(crate) fn new(providers: Vec<Provider>) -> Result<Self> {
        let connect = |provider: Provider| {
            let wire = Wire::new(provider.loopback)?;
            Ok((
                provider.id.clone(),
                Arc::new(Connection {
                    provider,
                    wire,
                    issuer: Issuer::default(),
                }),
            ))
        };
        Ok(Self(
            providers.into_iter().map(connect).collect::<Result<_>>()?,
        ))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the provider with this id.
    pub(crate) fn name_of(&self, id: &str) -> Option<&str> {
        self.0
            .get(id)
            .map(|connection| connection.provider.name.as_str())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Connection>> {
        self.0.get(id)
    }

    /// Each, by its id.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Provider> {
        self.0.values().map(|connection| &connection.provider)
    }
}

/// What came back with somebody.
pub(crate) struct Answer<'a> {
    pub(crate) code: &'a str,
    /// What the provider calls itself in the answer.
    pub(crate) issuer: Option<&'a str>,
    pub(crate) verifier: &'a str,
    pub(crate) nonce: &'a str,
}

impl Connection {
    /// Where to send somebody.
    ///
    /// # Errors
    /// When the issuer cannot be asked where that is.
    pub(crate) async fn authorization(
        &self,
        asked: &Authorization<'_>,
        now: Timestamp,
    ) -> std::result::Result<String, Failure> {
        let metadata = self.metadata(now).await?;
        grant::url(&self.provider, &metadata, asked)
    }

    /// Checks that an answer is this provider's, in so far as it says whose it is: another one
    /// might have been asked in its name.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) async fn answered(
        &self,
        issuer: Option<&str>,
        now: Timestamp,
    ) -> std::result::Result<(), Failure> {
        if !matches!(self.provider.kind, Kind::Oidc { .. }) {
            return Ok(());
        }
        let metadata = self.metadata(now).await?;
        match issuer {
            Some(issuer) if metadata.may_be(issuer) => Ok(()),
            Some(_) => Err(Failure("the answer is another issuer's")),
            None if metadata.names_itself => Err(Failure("the answer does not say whose it is")),
            None => Ok(()),
        }
    }

    /// Redeems a code for who somebody is.
    ///
    /// # Errors
    /// When the provider does not say, or not credibly.
    pub(crate) async fn identity(
        &self,
        answer: &Answer<'_>,
        now: Timestamp,
    ) -> std::result::Result<Identity, Failure> {
        self.answered(answer.issuer, now).await?;
        let metadata = self.metadata(now).await?;
        let tokens = grant::redeem(&self.provider, &metadata, &self.wire, answer, now).await?;
        match &self.provider.kind {
            Kind::Plain(plain) => {
                profile::plain(&self.wire, &self.provider, plain, &tokens.access).await
            }
            Kind::Oidc { dialect, .. } => {
                let id_token = tokens.id_token.ok_or(Failure("there is no id_token"))?;
                let keys = self
                    .issuer
                    .keys(
                        &self.wire,
                        &metadata,
                        id_token::kid(id_token.expose())?.as_deref(),
                        now,
                    )
                    .await?;
                let expected = id_token::Expected {
                    client_id: &self.provider.client_id,
                    nonce: answer.nonce,
                    dialect,
                    metadata: &metadata,
                };
                let claims = id_token::verify(id_token.expose(), &keys, &expected, now)?;
                profile::oidc(&self.wire, &metadata, dialect, claims, &tokens.access).await
            }
        }
    }

    async fn metadata(&self, now: Timestamp) -> std::result::Result<Arc<Metadata>, Failure> {
        match &self.provider.kind {
            Kind::Plain(plain) => Ok(Arc::new(Metadata::fixed(plain))),
            Kind::Oidc { issuer, dialect } => {
                self.issuer.metadata(&self.wire, issuer, dialect, now).await
            }
        }
    }
}
