//! The shared state of all routes, created once at start-up.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::USER_AGENT;
use linchpin::http::{Origin, PluginCall};
use linchpin::seal::DataKeys;
use linchpin::{Actor, ActorKind, Adapters, Cx, Result, Timestamp, axum};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::config::{AuthConfig, Checked};
use crate::device::{Device, Devices};
use crate::entities::{
    Audit, AuditAdapter, AuditCreate, Session, SessionAdapter, User, UserAdapter,
};
use crate::env::Env;
use crate::flow::Parts;
use crate::flow::passkeys::Passkeys;
use crate::hooks::{HookCx, Hooks};
use crate::identity::address::address_limit_key;
use crate::keys::derive::Ring;
use crate::keys::signing::Signing;
use crate::limit::Limiter;
use crate::limit::counter::Counter;
use crate::oauth::Oauth;
use crate::oauth::entity::{ProviderLink, ProviderLinkAdapter};
use crate::password::{Breaches, Hasher, Policy};
use crate::secret::{SecretText, same};
use crate::session::bus::MAX_QUEUED;
use crate::session::check::Checks;
use crate::session::cookies::Cookies;
use crate::session::csrf::Csrf;
use crate::tenant::Tenants;

/// Maximum length of a stored user agent in characters.
const MAX_USER_AGENT_CHARS: usize = 256;

/// The state of the running plugin.
pub(crate) struct Core {
    pub(crate) config: AuthConfig,
    pub(crate) env: Env,
    pub(crate) ring: Arc<Ring>,
    pub(crate) signing: Arc<Signing>,
    pub(crate) hasher: Hasher,
    pub(crate) policy: Policy,
    pub(crate) breaches: Breaches,
    pub(crate) limiter: Limiter,
    pub(crate) hooks: Hooks,
    pub(crate) cookies: Cookies,
    pub(crate) csrf: Csrf,
    pub(crate) adapters: Adapters,
    pub(crate) users: UserAdapter,
    pub(crate) sessions: SessionAdapter,
    pub(crate) audits: AuditAdapter,
    pub(crate) links: ProviderLinkAdapter,
    pub(crate) oauth: Oauth,
    pub(crate) checks: Arc<Checks>,
    pub(crate) parts: Parts,
    pub(crate) devices: Devices,
    pub(crate) passkeys: Passkeys,
    /// Invalidations for other processes. The bus takes the receiver at start-up.
    pub(crate) invalidations: Mutex<Option<mpsc::Receiver<String>>>,
    /// Whether the app runs in production, where development features are off.
    pub(crate) production: bool,
    /// Programs with an API credential.
    services: Vec<(SecretText, Arc<Actor>)>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The client of a request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) ip: Option<std::net::IpAddr>,
    pub(crate) user_agent: Option<String>,
    pub(crate) request_id: String,
    /// The tenant of the caller.
    pub(crate) tenant: Option<String>,
    /// The device token of the request.
    pub(crate) device: Option<SecretText>,
    pub(crate) now: Timestamp,
}

impl Client {
    /// The app itself as the client.
    pub(crate) fn of_app(now: Timestamp) -> Self {
        Self {
            ip: None,
            user_agent: None,
            request_id: String::new(),
            tenant: None,
            device: None,
            now,
        }
    }

    /// The context of the plugin's own reads and writes for this client.
    pub(crate) fn cx(&self) -> Cx {
        Cx::system("auth").at(self.now)
    }

    /// The device token of the request.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_ref().map(SecretText::expose)
    }

    /// The key of the client's address in rate limits.
    pub(crate) fn limit_key(&self) -> String {
        self.ip
            .map_or_else(|| "unknown".to_owned(), address_limit_key)
    }
}

/// An event for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct AuditEvent<'a> {
    pub(crate) event: &'static str,
    pub(crate) user: Option<&'a str>,
    /// The handle of the session.
    pub(crate) session: Option<&'a str>,
    /// `ok` or the error code.
    pub(crate) outcome: &'static str,
    pub(crate) details: Value,
}

impl<'a> AuditEvent<'a> {
    /// A successful event of an account.
    pub(crate) fn about(event: &'static str, user: &'a str) -> Self {
        Self {
            event,
            user: Some(user),
            session: None,
            outcome: "ok",
            details: Value::Null,
        }
    }

    pub(crate) fn session(self, session: &'a str) -> Self {
        Self {
            session: Some(session),
            ..self
        }
    }

    pub(crate) fn details(self, details: Value) -> Self {
        Self { details, ..self }
    }
}

impl Core {
    /// # Errors
    /// If an adapter is missing or the random source fails.
    pub(crate) fn new(
        checked: Checked,
        env: Env,
        keys: &Arc<DataKeys>,
        adapters: Adapters,
        self_checked_paths: Vec<String>,
    ) -> Result<Self> {
        let Checked {
            config,
            ring,
            signing,
            argon2,
            limits,
            providers,
            production,
        } = checked;
        let ring = Arc::new(ring);
        let (users, sessions): (UserAdapter, SessionAdapter) =
            (adapters.get::<User>()?, adapters.get::<Session>()?);
        let signing = Arc::new(signing);
        let (invalidation_sender, invalidations) = match &config.auth.session.bus {
            Some(_) => {
                let (invalidation_sender, invalidations) = mpsc::channel(MAX_QUEUED);
                (Some(invalidation_sender), Some(invalidations))
            }
            None => (None, None),
        };
        let password = &config.auth.password;
        let parallelism = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let service = |credential: &crate::config::ApiCredential| {
            let actor = Actor {
                id: Some(credential.id.clone()),
                kind: ActorKind::Service,
                roles: credential.roles.clone(),
                ..Actor::anonymous()
            };
            (credential.token.clone(), Arc::new(actor))
        };
        Ok(Self {
            checks: Checks::new(
                &config,
                (users.clone(), sessions.clone()),
                Arc::clone(&signing),
                env.clone(),
                Tenants::new(&config.auth, adapters.clone()),
                invalidation_sender,
            ),
            invalidations: Mutex::new(invalidations),
            hasher: Hasher::new(
                argon2,
                parallelism,
                Arc::clone(&env.rng),
                password.legacy.clone(),
            )?,
            policy: Policy {
                length: usize::try_from(password.min_length).unwrap_or(8)
                    ..=usize::try_from(password.max_length).unwrap_or(128),
                names: config
                    .auth
                    .passkeys
                    .rp_name
                    .iter()
                    .chain([&config.auth.app_name])
                    .cloned()
                    .collect(),
            },
            breaches: Breaches {
                checker: password.breach_checker.clone(),
                on_error: password.breach_on_error,
            },
            hooks: Hooks(config.auth.hooks.clone()),
            cookies: Cookies::new(&config),
            csrf: Csrf::new(&config, self_checked_paths, production),
            services: config
                .security
                .api_credentials
                .iter()
                .map(service)
                .collect(),
            audits: adapters.get::<Audit>()?,
            devices: Devices::new(adapters.get::<Device>()?, Arc::clone(&ring), env.clone()),
            links: adapters.get::<ProviderLink>()?,
            oauth: Oauth::new(providers)?,
            users,
            sessions,
            limiter: Limiter::new(
                adapters.get::<Counter>()?,
                Arc::clone(&ring),
                env.clone(),
                limits,
            ),
            parts: Parts::new(&config, keys, &env, &adapters)?,
            passkeys: Passkeys::new(&config, &adapters)?,
            ring,
            signing,
            adapters,
            env,
            config,
            production,
        })
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    /// The client of a call.
    pub(crate) fn client(&self, call: &PluginCall) -> Client {
        let tenant = call
            .cx
            .get_actor()
            .and_then(|actor| actor.tenant_id.clone());
        Client {
            tenant,
            ..self.client_of(
                &call.headers,
                Origin {
                    request_id: &call.request_id,
                    from: call.from,
                },
            )
        }
    }

    /// The client of a request.
    pub(crate) fn client_of(&self, headers: &HeaderMap, origin: Origin<'_>) -> Client {
        let forwarded: Vec<&[u8]> = headers
            .get_all("x-forwarded-for")
            .iter()
            .map(axum::http::HeaderValue::as_bytes)
            .collect();
        let trust = &self.config.security.trust_proxy;
        Client {
            ip: origin
                .from
                .map(|socket| trust.client(socket, forwarded.into_iter())),
            user_agent: user_agent(headers),
            request_id: origin.request_id.as_str().to_owned(),
            tenant: None,
            device: self.cookies.device(headers).map(SecretText::new),
            now: self.now(),
        }
    }

    /// The context of hooks.
    pub(crate) fn hook_cx(&self, client: &Client) -> HookCx {
        HookCx {
            ip: client.ip,
            user_agent: client.user_agent.clone(),
            request_id: client.request_id.clone(),
            services: self.adapters.clone(),
        }
    }

    /// Returns the actor of an API credential. A token with a dot is a user's token.
    pub(crate) fn program(&self, token: &str) -> Option<Arc<Actor>> {
        if token.contains('.') {
            return None;
        }
        // Compares all tokens, so that the time does not depend on which one is similar.
        let mut found = None;
        for (known, actor) in &self.services {
            if same(known.expose().as_bytes(), token.as_bytes()) {
                found = Some(Arc::clone(actor));
            }
        }
        found
    }

    /// Writes an audit log entry, in the transaction of `cx` if it has one.
    ///
    /// # Errors
    /// If the entry cannot be written. Then the event must not happen either.
    pub(crate) async fn audit(
        &self,
        cx: &Cx,
        client: &Client,
        happened: AuditEvent<'_>,
    ) -> Result<()> {
        let retention_millis = i64::try_from(self.config.auth.audit_retention_seconds)
            .unwrap_or(i64::MAX / 1000)
            .saturating_mul(1000);
        let row = AuditCreate {
            event: happened.event.to_owned(),
            at: client.now,
            user_id: happened.user.map(str::to_owned),
            by_id: happened.details["by"].as_str().map(str::to_owned),
            session_id: happened.session.map(str::to_owned),
            tenant_id: client.tenant.clone(),
            ip: client.ip.map(|ip| ip.to_string()),
            user_agent: client.user_agent.clone(),
            request_id: Some(client.request_id.clone()),
            outcome: happened.outcome.to_owned(),
            details: Some(happened.details).filter(|details| !details.is_null()),
            expires_at: Some(later(client.now, retention_millis)),
        };
        self.audits.create(cx, row).await.map(drop)
    }
}

/// Adds milliseconds to a time; the result is at most the last valid time.
pub(crate) fn later(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(at.millis().saturating_add(millis)).min(Timestamp::MAX)
}

/// Converts seconds to milliseconds.
pub(crate) fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds)
        .unwrap_or(i64::MAX / 1000)
        .saturating_mul(1000)
}

fn user_agent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(USER_AGENT)?.to_str().ok()?;
    Some(
        text.chars()
            .filter(|c| !c.is_control())
            .take(MAX_USER_AGENT_CHARS)
            .collect(),
    )
}
