//! Sign-in with providers: the browser is sent to the provider, returns with the provider's code,
//! and gets a one-time code of this plugin, which it exchanges for a session.
//!
//! Until the plugin has checked that it redirected this browser, a refusal is an error response.
//! After that, a refusal is a redirect to the return address with an error code, never with a text
//! of the provider.

use std::time::Duration;

use linchpin::http::Reply;
use linchpin::{Code, Cx, Error, Result};
use serde::{Deserialize, Serialize};

use super::{MAX_ATTEMPTS, NewAccount, Proved};
use crate::config::Linking;
use crate::core::{Client, Core};
use crate::entities::User;
use crate::error::{HOOK_TIMEOUT, INVALID_CODE, INVALID_STATE, refuse};
use crate::hooks::SignUp;
use crate::identity::PrimaryField;
use crate::identity::normalise::{self, Identifier};
use crate::oauth::entity::ProviderLink;
use crate::oauth::{Answer, Authorization, Connection, Failure, Identity, Provider, proves};
use crate::onetime::{Purpose, Terms, hash};
use crate::return_target::ReturnTarget;
use crate::secret::same;

/// Time for the sign-in at the provider.
const FLOW_LIFETIME: Duration = Duration::from_mins(10);
/// Lifetime of the one-time code.
const CODE_LIFETIME: Duration = Duration::from_mins(1);

const METHOD: &str = "oauth";

/// The encrypted state of a sign-in at a provider.
#[derive(Serialize, Deserialize)]
struct FlowState {
    provider: String,
    target: String,
    nonce: String,
    verifier: String,
    /// The code challenge of the app's own client, which proves at the exchange that it started the
    /// flow.
    challenge: Option<String>,
    browser: BrowserHashes,
    link: Option<LinkFor>,
}

/// The browser that was redirected to the provider: SHA-256 hashes of its [`Marks`].
#[derive(Clone, Serialize, Deserialize)]
struct BrowserHashes {
    flow: String,
    host: String,
}

/// The cookie values that identify the browser.
pub(crate) struct Marks {
    /// A value for this flow.
    pub(crate) flow: String,
    /// A value for this host only, which a sibling domain cannot set. `flow` alone is not enough: a
    /// sibling domain can set it, so that a user who follows a link of this domain would complete
    /// the sign-in of another person.
    pub(crate) host: Option<String>,
    /// Whether the client is a browser by its headers. A browser keeps both values.
    pub(crate) is_browser: bool,
}

impl Marks {
    fn are_of(&self, sent: &BrowserHashes) -> bool {
        let flow = same(hash(&self.flow).as_bytes(), sent.flow.as_bytes());
        let host = match &self.host {
            Some(host) => same(hash(host).as_bytes(), sent.host.as_bytes()),
            None => !self.is_browser,
        };
        flow && host
    }
}

/// The account to link, and the session that requested the link.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LinkFor {
    pub(crate) user: String,
    pub(crate) session: String,
}

/// The encrypted data of a one-time code.
#[derive(Serialize, Deserialize)]
struct Redeemable {
    challenge: Option<String>,
    browser: BrowserHashes,
    /// The `session_epoch` of the account when the provider identified it. If all sessions end, for
    /// example when the mailbox is first verified, the code becomes invalid.
    #[serde(default)]
    epoch: i64,
}

/// A browser that is about to be sent to a provider.
pub(crate) struct Departure<'a> {
    pub(crate) target: &'a ReturnTarget,
    pub(crate) challenge: Option<String>,
    /// The marks of the browser: for this flow, and for this host.
    pub(crate) browser: (&'a str, &'a str),
    pub(crate) link: Option<LinkFor>,
}

/// The parameters of a browser that returns.
pub(crate) struct Return {
    pub(crate) code: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) browser: Option<Marks>,
    /// The id of the account that is signed in, if there is one.
    pub(crate) user: Option<String>,
}

/// The error code of a flow that failed, in `?error=`.
#[derive(PartialEq, Eq)]
struct Refused(&'static str);

/// The session that requested a link has ended. The browser may belong to another person now, so it
/// is not redirected.
const SESSION_ENDED: Refused = Refused("invalid_state");

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        tracing::error!(error = ?error, "a sign-in with a provider failed");
        Self("server_error")
    }
}

impl Core {
    /// Returns the address at the provider for a sign-in or a link. `None` if the provider cannot
    /// be reached.
    ///
    /// # Errors
    /// If the state cannot be stored.
    pub(crate) async fn start_provider_flow(
        &self,
        client: &Client,
        connection: &Connection,
        departure: Departure<'_>,
    ) -> Result<Option<String>> {
        let (nonce, verifier) = (self.random_text::<32>()?, self.random_text::<32>()?);
        let owner = departure
            .link
            .as_ref()
            .map_or_else(String::new, |link| link.user.clone());
        let flow_state = FlowState {
            provider: connection.provider.id.clone(),
            target: departure.target.as_str().to_owned(),
            nonce,
            verifier,
            challenge: departure.challenge,
            browser: BrowserHashes {
                flow: hash(departure.browser.0),
                host: hash(departure.browser.1),
            },
            link: departure.link,
        };
        let terms = Terms {
            only_newest: false,
            ..Terms::link(FLOW_LIFETIME)
        };
        let state = self
            .parts
            .tokens
            .issue(
                &client.cx(),
                Purpose::OauthState,
                &owner,
                &flow_state,
                terms,
            )
            .await?;
        let asked = Authorization {
            state: state.expose(),
            nonce: &flow_state.nonce,
            verifier: &flow_state.verifier,
        };
        match connection.authorization(&asked, client.now).await {
            Ok(url) => Ok(Some(url)),
            Err(failure) => {
                log(client, &connection.provider, failure);
                Ok(None)
            }
        }
    }

    /// Returns the address to which a browser is redirected after it came back from the provider.
    ///
    /// # Errors
    /// 400 `invalid_state` if the plugin did not redirect this browser, if the browser came back
    /// before, or if the session that requested the link has ended.
    pub(crate) async fn finish_provider_flow(
        &self,
        client: &Client,
        connection: &Connection,
        back: &Return,
    ) -> Result<String> {
        let flow_state = self.take_state(client, connection, back).await?;
        let target = ReturnTarget::parse(
            &flow_state.target,
            &self.config.auth.oauth.allowed_redirect_origins,
        )?;
        Ok(
            match self
                .complete_flow(client, connection, back, &flow_state)
                .await
            {
                Ok((name, value)) => target.with(name, &value),
                Err(SESSION_ENDED) => return Err(refuse(INVALID_STATE)),
                Err(Refused(code)) => target.with("error", code),
            },
        )
    }

    /// Takes the state of the flow. It is consumed before the code is exchanged at the provider.
    async fn take_state(
        &self,
        client: &Client,
        connection: &Connection,
        back: &Return,
    ) -> Result<FlowState> {
        let invalid = || refuse(INVALID_STATE);
        let cx = client.cx();
        let (state, browser) = back
            .state
            .as_deref()
            .zip(back.browser.as_ref())
            .ok_or_else(invalid)?;
        let found = self
            .parts
            .tokens
            .find(&cx, Purpose::OauthState, state)
            .await?
            .ok_or_else(invalid)?;
        let flow_state: FlowState = self.parts.tokens.payload(&found)?;
        if !browser.are_of(&flow_state.browser)
            || flow_state.provider != connection.provider.id
            || !self.parts.tokens.take(&cx, &found).await?
        {
            return Err(invalid());
        }
        match &flow_state.link {
            // Another user has signed in meanwhile, who did not request this link.
            Some(link) if back.user.as_ref().is_some_and(|user| *user != link.user) => {
                Err(invalid())
            }
            Some(link) if !self.may_request_link(&cx, client, link).await? => Err(invalid()),
            _ => Ok(flow_state),
        }
    }

    /// Whether the session that requested a link still exists and may still link a provider. If the
    /// account got a second factor meanwhile, the session must have proved it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) async fn may_request_link(
        &self,
        cx: &Cx,
        client: &Client,
        link: &LinkFor,
    ) -> Result<bool> {
        let session = self
            .sessions
            .get(cx, link.session.as_str())
            .await?
            .filter(|session| !session.is_over(client.now));
        let (Some(session), Some(user)) = (session, self.users.get(cx, link.user.as_str()).await?)
        else {
            return Ok(false);
        };
        let proved =
            self.methods(&user).is_empty() || session.proved_factors == Some(user.mfa_version);
        Ok(proved
            && session.is_of(&user)
            && user.suspended_at.is_none()
            && user.deletion_due_at.is_none())
    }

    /// Gets the identity from the provider. Returns the query parameter for the return address:
    /// `linked` with the provider, or `code` with a one-time code.
    async fn complete_flow(
        &self,
        client: &Client,
        connection: &Connection,
        back: &Return,
        flow_state: &FlowState,
    ) -> Result<(&'static str, String), Refused> {
        let provider = &connection.provider;
        let failed = |failure| {
            log(client, provider, failure);
            Refused("provider_error")
        };
        if let Some(error) = &back.error {
            connection
                .check_issuer(back.issuer.as_deref(), client.now)
                .await
                .map_err(failed)?;
            return Err(Refused(if error == "access_denied" {
                "access_denied"
            } else {
                "provider_error"
            }));
        }
        let code = back
            .code
            .as_deref()
            .ok_or(Failure("the authorization response has no code"))
            .map_err(failed)?;
        let answer = Answer {
            code,
            issuer: back.issuer.as_deref(),
            verifier: &flow_state.verifier,
            nonce: &flow_state.nonce,
        };
        let identity = connection
            .identity(&answer, client.now)
            .await
            .map_err(failed)?;
        if let Some(link) = &flow_state.link {
            self.link(client, provider, identity, link).await?;
            return Ok(("linked", provider.id.clone()));
        }
        let user = self
            .account_of_identity(client, provider, &identity)
            .await?;
        let cx = client.cx();
        let data = Redeemable {
            challenge: flow_state.challenge.clone(),
            browser: flow_state.browser.clone(),
            epoch: user.session_epoch,
        };
        let terms = Terms {
            only_newest: false,
            ..Terms::link(CODE_LIFETIME)
        };
        let code = self
            .parts
            .tokens
            .issue(&cx, Purpose::OauthCode, &user.id, &data, terms)
            .await?;
        Ok(("code", code.expose().to_owned()))
    }

    /// Returns the account of an identity: the linked one, an existing one that is linked now, or a
    /// new one.
    async fn account_of_identity(
        &self,
        client: &Client,
        provider: &Provider,
        identity: &Identity,
    ) -> Result<User, Refused> {
        let cx = client.cx();
        // The account for which the hook ran: it runs once for each account, even if this loop
        // repeats.
        let mut hook_ran_for = None;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(link) = self.link_of(&cx, identity).await? {
                match self.users.get(&cx, link.user_id.as_str()).await? {
                    // The owner of a deleted account counts as new.
                    Some(user) if user.is_gone(client.now) => self.purge(&user).await?,
                    Some(user) => {
                        self.may_enter(client, &user, &mut hook_ran_for).await?;
                        return Ok(user);
                    }
                    None => self.remove_link(&cx, &link).await?,
                }
            }
            let email = address(identity)?;
            let owner = self.users.by_email(&cx, email.normalised.clone()).await?;
            if let Some(user) = owner.filter(|user| !user.is_gone(client.now)) {
                // The same identity may have signed in from another browser since the first look.
                if self.link_of(&cx, identity).await?.is_some() {
                    continue;
                }
                if !self.may_link_existing(provider, &user) {
                    self.notify_owner(client, &user).await?;
                    return Err(Refused("account_exists"));
                }
                // Before the link is stored, so that a refusal of the hook changes nothing.
                self.may_enter(client, &user, &mut hook_ran_for).await?;
                match self.add_link(client, provider, identity, &user, None).await {
                    Ok(user) => return Ok(user),
                    // Another request linked it just now, the account has another link of this
                    // provider, or the account changed.
                    Err(error)
                        if matches!(error.code(), Code::Conflict | Code::PreconditionFailed) =>
                    {
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            match self.sign_up(client, provider, identity, email).await {
                Ok(user) if self.must_verify(&user) => return Err(Refused("email_not_verified")),
                Ok(user) => return Ok(user),
                Err(Some(refused)) => return Err(refused),
                Err(None) => {}
            }
        }
        Err(Refused("account_exists"))
    }

    async fn link_of(&self, cx: &Cx, identity: &Identity) -> Result<Option<ProviderLink>> {
        self.links
            .of_identity(cx, identity.issuer.clone(), identity.subject.clone())
            .await
    }

    /// Runs `pre_login` for the account, unless the hook already ran for it (`hook_ran_for`).
    async fn may_enter(
        &self,
        client: &Client,
        user: &User,
        hook_ran_for: &mut Option<String>,
    ) -> Result<(), Refused> {
        if user.suspended_at.is_some() {
            return Err(Refused("account_suspended"));
        }
        if self.must_verify(user) {
            return Err(Refused("email_not_verified"));
        }
        if hook_ran_for.as_ref() != Some(&user.id) {
            self.run_pre_login(client, METHOD, user)
                .await
                .map_err(hook_refusal)?;
            *hook_ran_for = Some(user.id.clone());
        }
        Ok(())
    }

    /// Whether the identity may be linked to an existing account with the same address.
    fn may_link_existing(&self, provider: &Provider, user: &User) -> bool {
        self.config.auth.oauth.linking == Linking::Verified
            && provider.trust_email
            && user.email_verified_at.is_some()
            && user.suspended_at.is_none()
    }

    /// Creates an account with its link; `Err(None)` if another request created the account first.
    async fn sign_up(
        &self,
        client: &Client,
        provider: &Provider,
        identity: &Identity,
        email: Identifier,
    ) -> Result<User, Option<Refused>> {
        // Only email addresses can come from a provider.
        if !self.config.auth.oauth.allow_sign_up
            || self.config.auth.primary_field != PrimaryField::Email
        {
            return Err(Some(Refused("sign_up_disabled")));
        }
        let hook_cx = self.hook_cx(client);
        let mut sign_up = SignUp {
            identifier: email.normalised.clone(),
            method: METHOD,
            user_id: None,
        };
        let allowed = self
            .hooks
            .run_pre(&hook_cx, &sign_up, |hooks, cx, input| {
                hooks.pre_register(cx, input)
            })
            .await;
        allowed.map_err(|error| Some(hook_refusal(error)))?;
        let account = NewAccount {
            identifier: email.clone(),
            email: Some(email),
            email_verified_at: (provider.trust_email && identity.email_verified)
                .then_some(client.now),
            password_hash: None,
            roles: self.config.auth.default_role.iter().cloned().collect(),
            method: METHOD,
            link: Some((provider.id.clone(), identity.clone())),
            app_metadata: None,
        };
        match self.create_account(client, account).await {
            Ok(user) => {
                sign_up.user_id = Some(user.id.clone());
                self.hooks
                    .spawn_post("post_register", hook_cx, sign_up, |hooks, cx, input| {
                        hooks.post_register(cx, input)
                    });
                Ok(user)
            }
            Err(error) if error.code() == Code::Conflict => Err(None),
            Err(error) => Err(Some(error.into())),
        }
    }

    /// Links a provider to the account that requested it.
    async fn link(
        &self,
        client: &Client,
        provider: &Provider,
        identity: Identity,
        link: &LinkFor,
    ) -> Result<(), Refused> {
        let cx = client.cx();
        for _ in 0..MAX_ATTEMPTS {
            let user = self
                .users
                .get(&cx, link.user.as_str())
                .await?
                .ok_or(SESSION_ENDED)?;
            self.may_add_way_in(&user)
                .map_err(|_| Refused("email_not_verified"))?;
            match self.link_of(&cx, &identity).await? {
                Some(known) if known.user_id == user.id => return Ok(()),
                Some(_) => return Err(Refused("already_linked")),
                None => {}
            }
            match self
                .add_link(client, provider, &identity, &user, Some(link))
                .await
            {
                // The account changed, so the session may have ended too.
                Err(error) if error.code() == Code::PreconditionFailed => {}
                Err(error) if error.code() == Code::Conflict => {
                    return Err(Refused("already_linked"));
                }
                Err(error) if error.code() == INVALID_STATE => return Err(SESSION_ENDED),
                done => return Ok(done.map(drop)?),
            }
        }
        Err(Refused("server_error"))
    }

    /// Exchanges a one-time code for a session. The code is consumed, whatever the result.
    ///
    /// # Errors
    /// 401 `invalid_code`; the errors of [`Core::complete_primary`].
    pub(crate) async fn redeem(
        &self,
        client: &Client,
        code: &str,
        verifier: Option<&str>,
        browser: Option<&Marks>,
    ) -> Result<Reply> {
        let invalid = || refuse(INVALID_CODE);
        let cx = client.cx();
        let found = self
            .parts
            .tokens
            .find(&cx, Purpose::OauthCode, code)
            .await?
            .ok_or_else(invalid)?;
        if !self.parts.tokens.take(&cx, &found).await? {
            return Err(invalid());
        }
        let data: Redeemable = self.parts.tokens.payload(&found)?;
        let is_same_client = match &data.challenge {
            Some(challenge) => verifier.is_some_and(|verifier| proves(verifier, challenge)),
            None => browser.is_some_and(|browser| browser.are_of(&data.browser)),
        };
        let user = if is_same_client {
            self.users.get(&cx, found.user_id.as_str()).await?
        } else {
            None
        };
        // A suspended account gets its own error.
        let user = user
            .filter(|user| user.suspended_at.is_some() || user.session_epoch == data.epoch)
            .ok_or_else(invalid)?;
        // RFC 8176 has no value for external providers; other servers use this one.
        self.complete_primary(
            client,
            Proved {
                user,
                method: METHOD,
                amr: &["fed"],
                aal: 1,
                status: 200,
            },
        )
        .await
    }
}

/// The address that a provider reports as verified.
fn address(identity: &Identity) -> Result<Identifier, Refused> {
    let email = identity.email.as_deref().ok_or(Refused("email_required"))?;
    if !identity.email_verified {
        return Err(Refused("email_not_verified"));
    }
    normalise::email(email).map_err(|_| Refused("email_required"))
}

/// The error code for the refusal of a hook. The text of the refusal is not added to the address.
fn hook_refusal(error: Error) -> Refused {
    match error.code() {
        Code::Internal | Code::Unavailable | HOOK_TIMEOUT => error.into(),
        _ => Refused("hook_rejected"),
    }
}

fn log(client: &Client, provider: &Provider, failure: Failure) {
    tracing::warn!(
        provider = provider.id,
        request_id = client.request_id,
        reason = failure.0,
        "could not get an identity from a provider"
    );
}
