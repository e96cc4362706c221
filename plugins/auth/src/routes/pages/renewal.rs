//! Sessions that go on while people look at pages: where the access token of a browser is over and
//! its refresh token is not, a page renews both, as the client of an app would by its own route.

use axum::body::Body;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse;
use linchpin::http::Reply;
use linchpin::{Result, axum};

use super::visit::{Visit, with};
use crate::flow::{Pace, Reason};
use crate::session::credential::{self, Credential, Once, once};
use crate::session::csrf::FETCH_SITE;
use crate::session::refresh::Presented;

/// Marks a page that is asked for once more, so that no browser is sent on for ever.
const AGAIN: &str = "again";

/// What a browser keeps from then on, beside what the page itself gives it.
#[derive(Default)]
pub(super) struct Kept(HeaderMap);

impl Kept {
    fn of(reply: Reply) -> Self {
        Self(reply.into_response().into_parts().0.headers)
    }

    /// Gives it to the browser. What the page says of the same cookies stands behind it, and
    /// counts: the end of a session, say.
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
    /// The token by which the browser may renew its session, and the handle of the session that it
    /// names: when nobody is signed in and nothing but cookies was sent.
    ///
    /// # Errors
    /// As [`Core::refresh_given`](crate::core::Core::refresh_given).
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

    /// Whether another site has sent the browser here: it leaves the cookie that renews a session
    /// at home then, and brings it once it comes from a page of ours.
    pub(super) fn may_be_renewable(&self) -> bool {
        let absent = matches!(self.core.cookies.refresh(self.headers()), Once::Absent);
        self.core.config.auth.refresh.enabled
            && self.is_from_elsewhere()
            && absent
            && !self.was_asked_again()
    }

    /// Whether another site has sent the browser here.
    pub(super) fn is_from_elsewhere(&self) -> bool {
        matches!(once(self.headers(), &FETCH_SITE), Once::Text(site) if site.eq_ignore_ascii_case("cross-site"))
    }

    /// Whether this is the second time that the page is asked for, because another site has sent
    /// the browser here at first.
    pub(super) fn was_asked_again(&self) -> bool {
        self.query.has(AGAIN)
    }

    /// To the same page once more, from a page of ours.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(super) fn once_more(&self) -> Result<Response<Body>> {
        self.show_on_the_way(&with(&self.page_as_asked(), AGAIN, "yes"))
    }

    /// Renews the session of a browser; what it is given goes into `kept` whatever comes after.
    /// Nobody is signed in where that is refused, and what can never be right again is not kept.
    ///
    /// # Errors
    /// When it cannot be told: 503, and 429 for a form.
    pub(super) async fn renew(&mut self, token: &str, kept: &mut Kept) -> Result<()> {
        let core = self.core.clone();
        let pace = match (self.is_form(), self.was_asked_again()) {
            (true, _) => Pace::Always,
            (false, false) => Pace::Seldom,
            (false, true) => Pace::Never,
        };
        let (_, sid, tokens) = match core.renew(&self.client, token, pace).await {
            Ok(renewed) => renewed,
            Err(error) => {
                match error.code().status() {
                    401 => *kept = Kept::of(core.cookies.clear(Reply::empty(204)?)),
                    403 => {}
                    // Whoever shares an address with somebody who tries tokens can sign in and read
                    // all pages for strangers.
                    429 if !self.is_form() => {}
                    _ => return Err(error),
                }
                return Ok(());
            }
        };
        *kept = Kept::of(core.carry(Reply::empty(204)?, &tokens, &sid, self.client.now)?);
        if let Some(actor) = core.checks.look(&tokens.access).await? {
            self.is_by(actor)?;
        }
        Ok(())
    }

    /// Ends the session that somebody leaves whose access token is over, if it goes on. Their form
    /// has been judged: it is of this session.
    ///
    /// # Errors
    /// When the store cannot say that it has ended.
    pub(super) async fn leave(&self, kept: &mut Kept) -> Result<()> {
        let cx = self.client.cx();
        // The form says whose it is, whatever else is beside the refresh token that names it.
        let handles = self
            .core
            .cookies
            .refreshes(self.headers())
            .filter_map(|token| Some(Presented::parse(token)?.handle()));
        let left: Option<String> = { handles }.find(|handle| self.is_form_of(handle));
        if let Some(handle) = left
            && let Some(session) = self.core.sessions.get(&cx, handle).await?
        {
            self.core
                .end(&cx, &self.client, &session, Reason::Logout)
                .await?;
        }
        *kept = Kept::of(self.core.cookies.clear(Reply::empty(204)?));
        Ok(())
    }
}
