//! Hooks: functions of the app that run before and after changes of accounts and sessions.

use std::fmt;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use linchpin::{Adapters, BoxFuture, Code, Error, Result, Timestamp};
use serde_json::{Map, Value};

use crate::error::{HOOK_REJECTED, HOOK_TIMEOUT, refuse};

/// Timeout of a `pre_` hook.
const PRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of `post_login`.
const CLAIMS_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the other `post_` hooks.
const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// The context of a hook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookCx {
    /// The address of the request.
    pub ip: Option<IpAddr>,
    /// The user agent of the request.
    pub user_agent: Option<String>,
    /// The id of the request.
    pub request_id: String,
    /// Services of the app: the adapter of an entity (`services.get::<Post>()`), values provided at
    /// start-up (`services.provided::<Billing>()`), and the bus (`services.events().emit("welcome",
    /// &payload)`).
    pub services: Adapters,
}

/// The refusal of a hook. Any error can be converted to a `HookError`; its text becomes the
/// message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookError {
    /// The message for the client.
    pub message: String,
    /// The status: 400 to 499, or 503. The default is 400.
    pub status: Option<u16>,
    /// The error code. The default is `hook_rejected`.
    pub code: Option<&'static str>,
}

impl HookError {
    /// A refusal with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: None,
            code: None,
        }
    }

    /// Sets the status.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        Self {
            status: Some(status),
            ..self
        }
    }

    /// Sets the error code.
    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    fn into_error(self) -> Error {
        let status = self
            .status
            .filter(|status| matches!(status, 400..=499 | 503))
            .unwrap_or(400);
        Error::new(
            Code::Other(status, self.code.unwrap_or(HOOK_REJECTED.as_str())),
            self.message,
        )
    }
}

impl<E: std::error::Error> From<E> for HookError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// A sign-up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SignUp {
    /// The normalised identifier.
    pub identifier: String,
    /// The method, such as `password`.
    pub method: &'static str,
    /// The id of the account, after it is created.
    pub user_id: Option<String>,
}

/// A sign-in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SignIn {
    /// The normalised identifier, if one was typed.
    pub identifier: Option<String>,
    /// The method, such as `password`.
    pub method: &'static str,
    /// The id of the account, after it is known.
    pub user_id: Option<String>,
    /// The handle of the session, after it is opened.
    pub session_id: Option<String>,
    /// Authentication methods of the session (RFC 8176).
    pub amr: Vec<String>,
}

/// A change of password.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PasswordChange {
    /// The id of the account.
    pub user_id: String,
    /// `set`, `change` or `reset`.
    pub cause: &'static str,
}

/// The deletion of an account.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AccountDeletion {
    /// The id of the account.
    pub user_id: String,
    /// The time of the deletion.
    pub scheduled_for: Option<Timestamp>,
}

/// The result of a hook that may refuse.
pub type HookResult<T = ()> = std::result::Result<T, HookError>;

/// Hooks of the app. A `pre_` hook runs before the change and may refuse it. A `post_` hook runs
/// after the change, and its errors change nothing.
#[allow(unused_variables)] // the names of the arguments are documentation
pub trait AuthHooks: Send + Sync + 'static {
    /// Runs before an account is created.
    fn pre_register<'a>(&'a self, cx: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }

    /// Runs after an account is created.
    fn post_register<'a>(&'a self, cx: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }

    /// Runs before a credential is checked.
    fn pre_login<'a>(&'a self, cx: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }

    /// Runs after a session is opened. The members of `customClaims` in its result are added to the
    /// access token.
    fn post_login<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Value>> {
        Box::pin(async { Ok(Value::Null) })
    }

    /// Runs before a password is changed.
    fn pre_password_change<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a PasswordChange,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }

    /// Runs after a password is changed.
    fn post_password_change<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a PasswordChange,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }

    /// Runs once, when a deletion is requested: before the account is deleted or its deletion is
    /// scheduled.
    fn pre_delete_account<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }

    /// Runs after an account is deleted. This may be long after the request; `cx` is the context of
    /// that request.
    fn post_delete_account<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Ok(()) })
    }
}

/// The method of [`AuthHooks`] for an input.
type Hook<I> = for<'a> fn(&'a dyn AuthHooks, &'a HookCx, &'a I) -> BoxFuture<'a, HookResult>;

/// The hooks of an app, with their timeouts and the handling of their results.
#[derive(Clone, Default)]
pub(crate) struct Hooks(pub(crate) Option<Arc<dyn AuthHooks>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.0.is_some()).finish()
    }
}

impl Hooks {
    /// Runs a `pre_` hook.
    ///
    /// # Errors
    /// The refusal of the hook; 504 `hook_timeout`; `internal` if the hook panics.
    pub(crate) async fn run_pre<I>(&self, cx: &HookCx, input: &I, hook: Hook<I>) -> Result<()> {
        let Some(hooks) = &self.0 else { return Ok(()) };
        let running = AssertUnwindSafe(async { hook(&**hooks, cx, input).await }).catch_unwind();
        match tokio::time::timeout(PRE_TIMEOUT, running).await {
            Ok(Ok(answer)) => answer.map_err(HookError::into_error),
            Ok(Err(_)) => Err(Error::internal("a hook panicked")),
            Err(_) => Err(refuse(HOOK_TIMEOUT)),
        }
    }

    /// Runs a `post_` hook in the background.
    pub(crate) fn spawn_post<I: Send + Sync + 'static>(
        &self,
        name: &'static str,
        cx: HookCx,
        input: I,
        hook: Hook<I>,
    ) {
        let Some(hooks) = self.0.clone() else { return };
        tokio::spawn(async move {
            let running =
                AssertUnwindSafe(async { hook(&*hooks, &cx, &input).await }).catch_unwind();
            let problem = match tokio::time::timeout(POST_TIMEOUT, running).await {
                Ok(Ok(Ok(()))) => return,
                Ok(Ok(Err(error))) => error.message,
                Ok(Err(_)) => "it panicked".to_owned(),
                Err(_) => "it took too long".to_owned(),
            };
            tracing::warn!(
                hook = name,
                request_id = cx.request_id,
                error = problem,
                "a hook failed"
            );
        });
    }

    /// Whether the app has no hooks.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Runs `post_login` and returns its claims. Its failure does not stop the sign-in.
    pub(crate) async fn claims(&self, cx: &HookCx, input: &SignIn) -> Option<Map<String, Value>> {
        let hooks = self.0.as_ref()?;
        let running = AssertUnwindSafe(async { hooks.post_login(cx, input).await }).catch_unwind();
        let problem = match tokio::time::timeout(CLAIMS_TIMEOUT, running).await {
            Ok(Ok(Ok(answer))) => return custom_claims(answer, &cx.request_id),
            Ok(Ok(Err(error))) => error.message,
            Ok(Err(_)) => "it panicked".to_owned(),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(
            hook = "post_login",
            request_id = cx.request_id,
            error = problem,
            "a hook failed; the sign-in continues without its claims"
        );
        None
    }
}

/// Claims that a hook cannot set.
const RESERVED: [&str; 8] = ["exp", "iat", "nbf", "iss", "aud", "jti", "sub", "sid"];
/// Maximum size of custom claims in bytes.
const MAX_CLAIMS_BYTES: usize = 4096;

fn custom_claims(answer: Value, request_id: &str) -> Option<Map<String, Value>> {
    if answer.is_null() {
        return None;
    }
    let claims = match answer {
        Value::Object(mut answer) => match answer.remove("customClaims") {
            Some(Value::Object(claims)) => Some(claims),
            _ => None,
        },
        _ => None,
    };
    let Some(mut claims) = claims else {
        tracing::warn!(
            request_id,
            "post_login returned a value without an object `customClaims`; the value is ignored"
        );
        return None;
    };
    claims.retain(|name, _| !RESERVED.contains(&name.as_str()));
    if serde_json::to_vec(&claims).map_or(usize::MAX, |text| text.len()) > MAX_CLAIMS_BYTES {
        tracing::warn!(
            request_id,
            "the custom claims are longer than 4 KiB and are left out"
        );
        return None;
    }
    Some(claims)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reserved_claims_cannot_be_replaced() {
        let claims = custom_claims(
            json!({ "customClaims": { "sub": "x", "exp": 1, "iss": "x", "sid": "x", "plan": "pro" }, "other": 1 }),
            "",
        );
        assert_eq!(claims.map(Value::Object), Some(json!({ "plan": "pro" })));
        for ignored in [
            json!(null),
            json!("x"),
            json!({ "plan": 1 }),
            json!({ "customClaims": [] }),
            json!({ "customClaims": { "x": "y".repeat(5000) } }),
        ] {
            assert_eq!(custom_claims(ignored, ""), None);
        }
    }

    /// A hook that hangs or panics.
    #[derive(Default)]
    struct Stuck {
        /// Referenced by each hook that is still running.
        running: Arc<()>,
    }

    impl AuthHooks for Stuck {
        fn pre_register<'a>(&'a self, _: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
            Box::pin(std::future::pending())
        }

        fn post_register<'a>(&'a self, _: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
            let running = Arc::clone(&self.running);
            Box::pin(async move {
                let never = std::future::pending().await;
                drop(running);
                never
            })
        }

        fn pre_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult> {
            Box::pin(async { panic!("a hook of tests") })
        }

        fn post_login<'a>(
            &'a self,
            _: &'a HookCx,
            _: &'a SignIn,
        ) -> BoxFuture<'a, HookResult<Value>> {
            Box::pin(std::future::pending())
        }
    }

    /// A hook is stopped at its timeout, and the response does not contain the text of a panic.
    #[tokio::test(start_paused = true)]
    async fn hooks_that_hang_or_panic_are_stopped() {
        let stuck = Stuck::default();
        let running = Arc::clone(&stuck.running);
        let hooks = Hooks(Some(Arc::new(stuck)));
        let cx = HookCx {
            ip: None,
            user_agent: None,
            request_id: String::new(),
            services: Adapters::default(),
        };
        let sign_in = SignIn {
            identifier: None,
            method: "password",
            user_id: None,
            session_id: None,
            amr: Vec::new(),
        };
        let sign_up = SignUp {
            identifier: "a@x.test".into(),
            method: "password",
            user_id: None,
        };
        let begun = tokio::time::Instant::now();
        let late = hooks
            .run_pre(&cx, &sign_up, |hooks, cx, input| {
                hooks.pre_register(cx, input)
            })
            .await
            .unwrap_err();
        assert_eq!(
            (
                late.code().as_str(),
                late.code().status(),
                begun.elapsed().as_secs()
            ),
            ("hook_timeout", 504, 10)
        );
        let begun = tokio::time::Instant::now();
        assert_eq!(hooks.claims(&cx, &sign_in).await, None);
        assert_eq!(begun.elapsed().as_secs(), 5);
        // The request does not wait for a `post_` hook; a hanging one is stopped.
        let begun = tokio::time::Instant::now();
        let running_hooks = || Arc::strong_count(&running) - 2;
        hooks.spawn_post("post_register", cx.clone(), sign_up, |hooks, cx, input| {
            hooks.post_register(cx, input)
        });
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!((begun.elapsed().as_secs(), running_hooks()), (29, 1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(running_hooks(), 0);
        let panicked = hooks
            .run_pre(&cx, &sign_in, |hooks, cx, input| hooks.pre_login(cx, input))
            .await
            .unwrap_err();
        assert_eq!(panicked.code(), Code::Internal);
        assert!(!panicked.message().contains("tests"), "{panicked:?}");
    }

    #[test]
    fn a_refusal_keeps_only_a_status_of_an_allowed_range() {
        let status = |error: HookError| error.into_error().code().status();
        assert_eq!(status(HookError::new("no")), 400);
        assert_eq!(status(HookError::new("no").status(403)), 403);
        assert_eq!(status(HookError::new("no").status(503)), 503);
        for odd in [200, 302, 500, 0, 999] {
            assert_eq!(status(HookError::new("no").status(odd)), 400);
        }
        let error = HookError::new("no").code("blocked").into_error();
        assert_eq!((error.code().as_str(), error.message()), ("blocked", "no"));
        let from: HookError = std::io::Error::other("disk").into();
        assert_eq!(from.message, "disk");
    }
}
