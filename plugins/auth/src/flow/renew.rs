//! Refresh: the current token gets a new pair, the previous one gets the same pair again, and any
//! earlier token ends the session.

use axum::http::HeaderMap;
use linchpin::{Code, Cx, Error, Result, Timestamp, axum};

use super::{MAX_ATTEMPTS, Reason, Tokens};
use crate::core::{Client, Core, millis};
use crate::entities::{Session, SessionPatch, User};
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, EMAIL_NOT_VERIFIED, REFRESH_INVALID, REFRESH_REUSED, refuse,
};
use crate::limit::{Bucket, Hit};
use crate::session::credential::SingleValue;
use crate::session::csrf::{self, FETCH_SITE};
use crate::session::refresh::{Presented, TokenState};
use crate::session::sid;

/// How often a refresh token is rotated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// With each refresh: the client stores the new tokens.
    Always,
    /// In the second half of its lifetime. A browser may leave a page before the response arrives,
    /// and would then present a token that was rotated.
    Seldom,
    /// Never: another site sent the browser here and may navigate the browser away before the
    /// response arrives.
    Never,
}

impl Core {
    /// Renews the tokens of a session. Returns its account, its `sid` and the tokens.
    ///
    /// # Errors
    /// 401 `refresh_invalid`, `refresh_reused`; 403 `account_suspended`.
    pub(crate) async fn renew(
        &self,
        client: &Client,
        token: &str,
        pace: Pace,
    ) -> Result<(User, String, Tokens)> {
        let cx = client.cx();
        let of_address = [Hit {
            bucket: Bucket::RefreshIp,
            key: &[&client.limit_key()],
        }];
        self.limiter.take(&of_address).await?.succeeded().await;
        let presented = Presented::parse(token).ok_or_else(invalid)?;
        let (mut counted, mut keeps_token) = (false, false);
        // A conflict means that another request rotated the token; the next attempt reads the new
        // state of the session.
        for _ in 0..MAX_ATTEMPTS {
            let session = self
                .sessions
                .get(&cx, presented.handle())
                .await?
                .filter(|session| presented.is_of(&self.ring, session));
            let session = session
                .filter(|session| self.is_usable(session, client))
                .ok_or_else(invalid)?;
            if !std::mem::replace(&mut counted, true) {
                // Only valid tokens count: anyone who knows the handle of a session must not use up
                // its limit.
                let of_session = [Hit {
                    bucket: Bucket::Refresh,
                    key: &[&presented.handle()],
                }];
                self.limiter.take(&of_session).await?.succeeded().await;
            }
            let user = self.owner(&cx, client, &session).await?;
            let renewed =
                match presented.state(&session, client.now, self.config.auth.refresh.grace_seconds)
                {
                    TokenState::Current
                        if pace == Pace::Never
                            || (pace == Pace::Seldom && self.is_fresh(&session, client)) =>
                    {
                        keeps_token = true;
                        session
                    }
                    TokenState::Current => match self.rotate(&cx, client, &session).await {
                        Ok(rotated) => rotated,
                        // Another request was faster: the token is checked again.
                        Err(error)
                            if matches!(
                                error.code(),
                                Code::PreconditionFailed | Code::Conflict
                            ) =>
                        {
                            continue;
                        }
                        Err(error) if error.code() == Code::NotFound => return Err(invalid()),
                        Err(error) => return Err(error),
                    },
                    TokenState::JustRotated => session,
                    TokenState::Reused => {
                        self.end(&cx, client, &session, Reason::Reused).await?;
                        return Err(refuse(REFRESH_REUSED));
                    }
                };
            let sid = sid::of(&self.ring, &renewed).ok_or_else(invalid)?;
            let mut tokens = self.tokens(&renewed, &sid, client.now)?;
            if keeps_token {
                // The browser has this token. Sending it again could replace a newer one that
                // another window got meanwhile.
                tokens.refresh = None;
            }
            return Ok((user, sid, tokens));
        }
        Err(Error::unavailable("the session kept changing"))
    }

    /// Whether any token of a session may still work or be renewed.
    pub(crate) fn is_usable(&self, session: &Session, client: &Client) -> bool {
        let auth = &self.config.auth;
        let refresh = if auth.refresh.enabled {
            millis(auth.refresh.refresh_seconds)
        } else {
            0
        };
        session.is_usable(client.now, millis(auth.session.idle_seconds), refresh)
    }

    /// The active sessions of a user. `caller_session` is the session of the request: it counts as
    /// active, even if its stored last activity is too old.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn active_sessions_of(
        &self,
        client: &Client,
        user: &str,
        caller_session: Option<&str>,
    ) -> Result<Vec<Session>> {
        let mut sessions = self.sessions_of(&client.cx(), user).await?;
        sessions.retain(|session| {
            caller_session == Some(session.handle.as_str()) || self.is_usable(session, client)
        });
        Ok(sessions)
    }

    /// Returns an active session of a user.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn active_session(
        &self,
        client: &Client,
        user: &str,
        handle: &str,
        caller_session: Option<&str>,
    ) -> Result<Session> {
        let session = self
            .sessions
            .get(&client.cx(), handle)
            .await?
            .filter(|session| session.user_id == user);
        session
            .filter(|session| caller_session == Some(handle) || self.is_usable(session, client))
            .ok_or_else(Error::not_found)
    }

    /// Whether a refresh token is in the first half of its lifetime and the session can continue
    /// with it.
    fn is_fresh(&self, session: &Session, client: &Client) -> bool {
        let auth = &self.config.auth;
        let within =
            |since: Timestamp, max: i64| max == 0 || client.now.millis() - since.millis() < max;
        within(session.last_active_at, millis(auth.session.idle_seconds))
            && within(session.rotated_at, millis(auth.refresh.refresh_seconds) / 2)
    }

    async fn owner(&self, cx: &Cx, client: &Client, session: &Session) -> Result<User> {
        let user = self.users.get(cx, session.user_id.clone()).await?;
        let user = user
            .filter(|user| !user.is_gone(client.now))
            .ok_or_else(invalid)?;
        if user.suspended_at.is_none() && !session.is_of(&user) {
            return Err(invalid());
        }
        if self.must_verify(&user) {
            return Err(refuse(EMAIL_NOT_VERIFIED));
        }
        if user.suspended_at.is_some() {
            self.end(cx, client, session, Reason::Suspended).await?;
            return Err(refuse(ACCOUNT_SUSPENDED));
        }
        Ok(user)
    }

    async fn rotate(&self, cx: &Cx, client: &Client, session: &Session) -> Result<Session> {
        let patch = SessionPatch {
            generation: Some(session.generation + 1),
            rotated_at: Some(client.now),
            last_active_at: Some(client.now),
            ..SessionPatch::default()
        };
        self.sessions
            .update(cx, session.handle.clone(), patch, Some(session.version))
            .await
    }
}

fn invalid() -> Error {
    refuse(REFRESH_INVALID)
}

impl Core {
    /// Returns the refresh token of a browser's cookies, with the handle of its session. A sibling
    /// domain may have planted more refresh tokens. So only a token of the session that is named in
    /// the proof cookie is accepted. Then no user is signed in as another person, and every user
    /// can sign out.
    ///
    /// # Errors
    /// If there are several tokens and the store cannot be read.
    pub(crate) async fn refresh_given<'a>(
        &self,
        cx: &Cx,
        headers: &'a HeaderMap,
    ) -> Result<Option<(&'a str, String)>> {
        let SingleValue::Text(mark) = self.cookies.refresh_proof(headers) else {
            return Ok(None);
        };
        let candidate = |token: &'a str| {
            let presented = Presented::parse(token)?;
            csrf::is_token_of(
                mark,
                &csrf::refresh_subject(&presented.handle()),
                &self.ring,
            )
            .then_some((token, presented))
        };
        let mut found: Vec<(&str, Presented)> = self
            .cookies
            .all_refresh_tokens(headers)
            .filter_map(candidate)
            .collect();
        // A forged token that only has the handle of the session is dropped, and the latest of the
        // valid ones is used.
        if let [(_, first), _, ..] = found.as_slice()
            && let Some(session) = self.sessions.get(cx, first.handle()).await?
        {
            found.retain(|(_, presented)| presented.is_of(&self.ring, &session));
            found.sort_by_key(|(_, presented)| std::cmp::Reverse(presented.generation()));
        }
        Ok(found
            .into_iter()
            .next()
            .map(|(token, presented)| (token, presented.handle())))
    }

    /// Checks a refresh that is authenticated by a cookie only. `is_from_server` says whether this
    /// browser got the token from the server. A token without a session passes, because it cannot
    /// be misused.
    ///
    /// # Errors
    /// 403 `csrf_failed`, also if the headers show that the client is a browser and this browser
    /// did not get the token from the server.
    pub(crate) async fn check_refresh(
        &self,
        client: &Client,
        headers: &HeaderMap,
        token: &str,
        is_from_server: bool,
    ) -> Result<()> {
        let Some(presented) = Presented::parse(token) else {
            return Ok(());
        };
        let session = self
            .sessions
            .get(&client.cx(), presented.handle())
            .await?
            .filter(|session| presented.is_of(&self.ring, session));
        match session.and_then(|session| sid::of(&self.ring, &session)) {
            Some(sid) => match self.csrf.check(
                &self.csrf.presented(headers, &self.cookies),
                &sid,
                &self.ring,
            ) {
                // With `Domain`, several hosts share the refresh token, but the proof cookie is
                // only for the host that set it. So these hosts must trust each other.
                Ok(())
                    if is_from_server
                        || !headers.contains_key(FETCH_SITE)
                        || self.config.auth.cookies.domain.is_some() =>
                {
                    Ok(())
                }
                Ok(()) => Err(refuse(CSRF_FAILED)),
                Err(refusal) => Err(self
                    .forged(
                        client,
                        None,
                        &format!("{}/refresh", self.config.auth.mount),
                        refusal,
                    )
                    .await),
            },
            None => Ok(()),
        }
    }
}
