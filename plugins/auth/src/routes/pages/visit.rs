//! A request for a page, with its user and its form.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use linchpin::http::{PluginCall, Reply};
use linchpin::{Actor, Code, Error, Result, axum};
use serde_json::Value;

use super::BASE;
use super::forms::Owner;
use crate::core::{Client, Core};
use crate::guards::checked_session;
use crate::mfa::ProofMethod;
use crate::return_target::ReturnTarget;
use crate::session::CheckedSession;
use crate::session::credential::SingleValue;

/// Maximum size of a form in bytes.
const MAX_FORM: usize = 64 << 10;

/// Names and values of a form or a query.
#[derive(Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    fn of(text: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first value of a name; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value.as_str())
    }

    /// Whether any value of a name is not empty.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|(known, value)| known == name && !value.is_empty())
    }

    /// The first value of a name; `None` if it is missing or empty.
    pub(super) fn non_empty(&self, name: &str) -> Option<String> {
        Some(self.get(name))
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    }
}

/// A request for a page.
pub(super) struct Visit {
    pub(super) core: Arc<Core>,
    parts: Parts,
    pub(super) client: Client,
    /// The signed-in user.
    pub(super) known: Option<CheckedSession>,
    /// The actor of a session that this request renewed.
    renewed: Option<Arc<Actor>>,
    pub(super) form: Fields,
    pub(super) query: Fields,
    /// The value of the browser's cookie, to which forms without a session are bound, and whether
    /// it is new.
    browser: (String, bool),
}

impl Visit {
    /// Reads a request and its form.
    ///
    /// # Errors
    /// 413, 415.
    pub(super) async fn of(core: Arc<Core>, request: Request) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let call = PluginCall::of(&parts, &[])?;
        let known = call
            .cx
            .get_actor()
            .and_then(|actor| checked_session(actor))
            .cloned();
        let browser = match core.cookies.browser(&parts.headers) {
            SingleValue::Text(value) if value.len() == 43 => (value.to_owned(), false),
            _ => (core.random_text::<32>()?, true),
        };
        let query = Fields::of(parts.uri.query().unwrap_or_default().as_bytes());
        let client = core.client(&call);
        let mut visit = Self {
            core,
            parts,
            client,
            known,
            renewed: None,
            form: Fields::default(),
            query,
            browser,
        };
        if visit.is_form() {
            visit.form = visit.read(body).await?;
        }
        Ok(visit)
    }

    /// Whether the request is a form.
    pub(super) fn is_form(&self) -> bool {
        self.parts.method == Method::POST
    }

    async fn read(&self, body: Body) -> Result<Fields> {
        let kind = self
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        if !kind
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("application/x-www-form-urlencoded")
        {
            return Err(Error::new(Code::UnsupportedMediaType, "This is not a form"));
        }
        let bytes = to_bytes(body, MAX_FORM)
            .await
            .map_err(|_| Error::new(Code::BodyTooLarge, "The form is too large"))?;
        Ok(Fields::of(&bytes))
    }

    /// Signs the user in after the session was renewed.
    pub(super) fn set_renewed_actor(&mut self, actor: Arc<Actor>) -> Result<()> {
        self.known = checked_session(&actor).cloned();
        self.renewed = Some(actor);
        self.client = self.core.client(&self.call(&[])?);
        Ok(())
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The path of the page below the base path.
    pub(super) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// The value of the browser's cookie; `None` if the request had none.
    pub(super) fn browser(&self) -> Option<&str> {
        (!self.browser.1).then_some(self.browser.0.as_str())
    }

    /// The value of the browser's cookie, or the new one that [`Visit::bind`] sets.
    pub(super) fn browser_mark(&self) -> &str {
        &self.browser.0
    }

    /// The token of a form.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn csrf(&self) -> Result<String> {
        match &self.known {
            Some(known) => Owner::Session(&known.handle),
            None => Owner::Browser(&self.browser.0),
        }
        .token(&self.core)
    }

    /// A call of a JSON route, with its path parameters.
    ///
    /// # Errors
    /// If there is no actor.
    pub(super) fn call(&self, params: &[&str]) -> Result<PluginCall> {
        let call = PluginCall::of(&self.parts, params)?;
        Ok(match &self.renewed {
            Some(actor) => call.by(Arc::clone(actor)),
            None => call,
        })
    }

    /// The address of this page with its query.
    pub(super) fn page_with_query(&self) -> String {
        let page = self.page(self.path());
        self.parts
            .uri
            .query()
            .map_or_else(|| page.clone(), |query| format!("{page}?{query}"))
    }

    /// The address of a page.
    pub(super) fn page(&self, path: &str) -> String {
        page(&self.core, path)
    }

    /// The target after sign-in: the requested one if it is a path of the app.
    pub(super) fn target(&self) -> String {
        let default_target = || self.core.config.auth.pages.home.clone();
        self.target_parameter()
            .or_else(default_target)
            .unwrap_or_else(|| self.page("/security"))
    }

    /// The target as a parameter; `None` if it is the default.
    pub(super) fn target_parameter(&self) -> Option<String> {
        let asked = [self.form.get("returnTo"), self.query.get("returnTo")]
            .into_iter()
            .find(|asked| !asked.is_empty())?;
        let target = ReturnTarget::parse(asked, &[]).ok()?;
        // A target below the mount is refused if it is not a page. The redirect to the target
        // starts at a page of the plugin, so it counts as intended by the user, and it follows a
        // proof of identity. So a link with the target `/auth/github/link` could link an attacker's
        // provider.
        let mount = &self.core.config.auth.mount;
        (!target.may_be_below(mount, &self.page(""))).then(|| target.as_str().to_owned())
    }

    /// Adds the target to an address.
    pub(super) fn with_target(&self, path: &str) -> String {
        let page = self.page(path);
        match self.target_parameter() {
            Some(target) => with(&page, "returnTo", &target),
            None => page,
        }
    }

    /// Redirects to the sign-in page, which returns here.
    pub(super) fn to_sign_in(&self) -> Response<Body> {
        let here = if self.is_form() {
            self.page("/security")
        } else {
            self.page_with_query()
        };
        go(&with(&self.page("/sign-in"), "returnTo", &here))
    }

    /// The redirect for a form that was opened before the user signed in in another window. The
    /// next page says that nothing was changed.
    pub(super) fn outdated_form(&self) -> Response<Body> {
        go(&with(&self.page("/security"), "failed", "overtaken"))
    }

    /// The signed-in user with an active account.
    ///
    /// # Errors
    /// 403 `deletion_scheduled`, `mfa_setup_required`.
    pub(super) fn active(&self) -> Result<Option<&CheckedSession>> {
        self.known
            .as_ref()
            .map(CheckedSession::require_complete)
            .transpose()
    }

    /// The signed-in user, whose account may still need a second factor.
    ///
    /// # Errors
    /// 403 `deletion_scheduled`.
    pub(super) fn enrolling(&self) -> Result<Option<&CheckedSession>> {
        self.known
            .as_ref()
            .map(CheckedSession::require_active)
            .transpose()
    }

    /// A redirect after an action. The next page shows its message.
    pub(super) fn done(&self, path: &str, what: &'static str) -> Response<Body> {
        go(&with(&self.page(path), "done", what))
    }

    /// The token of the browser's challenge, for a sign-in or a step-up.
    pub(super) fn challenge(&self) -> Option<String> {
        self.kept_challenge()
            .map(|(token, _)| token)
            .filter(|token| !token.is_empty())
    }

    /// The method by which the challenge's code was sent, if it is known.
    pub(super) fn sent_by(&self) -> Option<ProofMethod> {
        let (_, way) = self.kept_challenge()?;
        [ProofMethod::EmailOtp, ProofMethod::Sms]
            .into_iter()
            .find(|known| known.name() == way)
    }

    fn kept_challenge(&self) -> Option<(String, String)> {
        match self.core.cookies.challenge(&self.parts.headers) {
            SingleValue::Text(text) => {
                let (token, way) = text.split_once('.').unwrap_or((text, ""));
                Some((token.to_owned(), way.to_owned()))
            }
            _ => None,
        }
    }

    /// Sets the cookie of a challenge, which lasts as long as the challenge.
    pub(super) fn keep_challenge(
        &self,
        mut response: Response<Body>,
        challenge: &str,
    ) -> Response<Body> {
        let seconds = self.core.config.auth.mfa.challenge_seconds;
        if let Some(cookie) = self
            .core
            .cookies
            .set_challenge(challenge, i64::try_from(seconds).unwrap_or(300))
        {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }

    /// Clears the cookie of a challenge.
    pub(super) fn forget_challenge(&self, mut response: Response<Body>) -> Response<Body> {
        if let Some(cookie) = self.core.cookies.set_challenge("", 0) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }

    /// Sets the browser's cookie if it is new.
    pub(super) fn bind(&self, mut response: Response<Body>) -> Response<Body> {
        if self.browser.1
            && self.known.is_none()
            && let Some(cookie) = self.core.cookies.set_browser(&self.browser.0)
        {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }
}

/// A redirect with 303.
pub(super) fn go(to: &str) -> Response<Body> {
    let mut response = StatusCode::SEE_OTHER.into_response();
    // Targets are paths of the app and valid in a header.
    if let Ok(to) = HeaderValue::from_str(&encoded(to)) {
        response.headers_mut().insert(LOCATION, to);
    }
    super::layout::set_security_headers(response.headers_mut());
    response
}

/// The address of a page.
pub(super) fn page(core: &Core, path: &str) -> String {
    format!("{}{BASE}{path}", core.config.auth.mount)
}

/// Adds a query parameter to an address.
pub(super) fn with(address: &str, name: &str, value: &str) -> String {
    let joint = if address.contains('?') { '&' } else { '?' };
    let pair: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair(name, value)
        .finish();
    format!("{address}{joint}{pair}")
}

/// Percent-encodes all bytes that are not ASCII.
fn encoded(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for c in target.chars() {
        if c.is_ascii_graphic() {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

/// The cookies and the body of a JSON route's response.
pub(super) struct Answered {
    cookies: HeaderMap,
    pub(super) body: Value,
}

impl Answered {
    /// # Errors
    /// If the body is not JSON.
    pub(super) async fn of(reply: Reply) -> Result<Self> {
        let (parts, body) = reply.into_response().into_parts();
        let bytes = to_bytes(body, MAX_FORM * 16)
            .await
            .map_err(Error::internal)?;
        Ok(Self {
            cookies: parts.headers,
            body: serde_json::from_slice(&bytes).map_err(Error::internal)?,
        })
    }

    /// Adds the cookies to a response.
    pub(super) fn add_to(&self, mut response: Response<Body>) -> Response<Body> {
        for cookie in self.cookies.get_all(SET_COOKIE) {
            response.headers_mut().append(SET_COOKIE, cookie.clone());
        }
        response
    }
}
