//! Renewal of sessions on pages: if the access token of a browser has expired and its refresh token
//! has not, a page renews both, like a client does with the refresh route.

use axum::body::Body;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse;
use linchpin::http::Reply;
use linchpin::{Result, axum};

use super::visit::{Visit, with};
use crate::flow::{Pace, Reason};
use crate::session::credential::{self, Credential, SingleValue, single_value};
use crate::session::csrf::FETCH_SITE;
use crate::session::refresh::Presented;

/// The query parameter of a repeated request, which prevents endless redirects.
const AGAIN: &str = "again";

/// Cookies for the browser, in addition to those of the page.
#[derive(Default)]
pub(super) struct RenewalCookies(HeaderMap);

impl RenewalCookies {
    fn of(reply: Reply) -> Self {
        Self(reply.into_response().into_parts().0.headers)
    }

    /// Adds the cookies. Cookies of the page itself come later and win, for example at the end of a
    /// session.
    pub(super) fn give(self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        let own: Vec<_> = headers.get_all(SET_COOKIE).iter().cloned().collect();
        headers.remove(SET_COOKIE);
        for cookie in self.0.get_all(SET_COOKIE).iter().chain(&own) {
            headers.append(SET_COOKIE, cookie.clone());
        }
    }
}

impl Visit {
    /// The refresh token that may renew the session, with the session's handle. `None` if a user is
    /// signed in, or if a header other than `Cookie` contains a credential.
    ///
    /// # Errors
    /// The errors of [`Core::refresh_given`](crate::core::Core::refresh_given).
    pub(super) async fn renewable(&self) -> Result<Option<(String, String)>> {
        if self.known.is_some()
            || !matches!(
                credential::of(self.headers(), &self.core.cookies),
                Credential::None | Credential::Cookie(_)
            )
        {
            return Ok(None);
        }
        let given = self
            .core
            .refresh_given(&self.client.cx(), self.headers())
            .await?
            .filter(|_| self.core.config.auth.refresh.enabled);
        Ok(given.map(|(token, handle)| (token.to_owned(), handle)))
    }

    /// Whether another site sent the browser here. Then the browser withholds the refresh cookie,
    /// and sends it with a request from a page of the plugin.
    pub(super) fn may_be_renewable(&self) -> bool {
        let absent = matches!(
            self.core.cookies.refresh(self.headers()),
            SingleValue::Absent
        );
        self.core.config.auth.refresh.enabled
            && self.is_from_elsewhere()
            && absent
            && !self.is_repeated()
    }

    /// Whether another site sent the browser here.
    pub(super) fn is_from_elsewhere(&self) -> bool {
        matches!(single_value(self.headers(), &FETCH_SITE), SingleValue::Text(site) if site.eq_ignore_ascii_case("cross-site"))
    }

    /// Whether this is the repeated request after another site sent the browser here.
    pub(super) fn is_repeated(&self) -> bool {
        self.query.has(AGAIN)
    }

    /// Requests the same page again, from a page of the plugin.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn repeat_from_own_page(&self) -> Result<Response<Body>> {
        self.show_redirect(&with(&self.page_with_query(), AGAIN, "yes"))
    }

    /// Renews the session of a browser and stores its cookies in `cookies`. If the refresh is
    /// refused nobody is signed in, and a token that can never be valid again is cleared.
    ///
    /// # Errors
    /// 503 if the store is not reachable; 429 for a form.
    pub(super) async fn renew(&mut self, token: &str, cookies: &mut RenewalCookies) -> Result<()> {
        let core = self.core.clone();
        let pace = match (self.is_form(), self.is_repeated()) {
            (true, _) => Pace::Always,
            (false, false) => Pace::Seldom,
            (false, true) => Pace::Never,
        };
        let (_, sid, tokens) = match core.renew(&self.client, token, pace).await {
            Ok(renewed) => renewed,
            Err(error) => {
                match error.code().status() {
                    401 => *cookies = RenewalCookies::of(core.cookies.clear(Reply::empty(204)?)),
                    403 => {}
                    // A client can still sign in and read public pages if another client with the
                    // same IP address tries tokens.
                    429 if !self.is_form() => {}
                    _ => return Err(error),
                }
                return Ok(());
            }
        };
        *cookies = RenewalCookies::of(core.attach_tokens(
            Reply::empty(204)?,
            &tokens,
            &sid,
            self.client.now,
        )?);
        if let Some(actor) = core.checks.find_actor(&tokens.access).await? {
            self.set_renewed_actor(actor)?;
        }
        Ok(())
    }

    /// Ends the session of a user who signs out with an expired access token. The form was checked:
    /// it belongs to this session.
    ///
    /// # Errors
    /// If the store cannot end it.
    pub(super) async fn end_expired_session(&self, cookies: &mut RenewalCookies) -> Result<()> {
        let cx = self.client.cx();
        // The form identifies the session, even if other cookies were planted.
        let handles = self
            .core
            .cookies
            .all_refresh_tokens(self.headers())
            .filter_map(|token| Some(Presented::parse(token)?.handle()));
        let handle_of_form: Option<String> = { handles }.find(|handle| self.is_form_of(handle));
        if let Some(handle) = handle_of_form
            && let Some(session) = self.core.sessions.get(&cx, handle).await?
        {
            self.core
                .end(&cx, &self.client, &session, Reason::Logout)
                .await?;
        }
        *cookies = RenewalCookies::of(self.core.cookies.clear(Reply::empty(204)?));
        Ok(())
    }
}
