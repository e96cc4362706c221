//! Refresh: a new pair for the current token, the same one for the token just rotated, the end for
//! any earlier one.

use axum::http::HeaderMap;
use linchpin::{Code, Cx, Error, Result, Timestamp, axum};

use super::{OVERTAKEN, Reason, Tokens};
use crate::core::{Client, Core, millis};
use crate::entities::{Session, SessionPatch, User};
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, EMAIL_NOT_VERIFIED, REFRESH_INVALID, REFRESH_REUSED, refuse,
};
use crate::limit::{Bucket, Hit};
use crate::session::credential::Once;
use crate::session::csrf::{self, FETCH_SITE};
use crate::session::refresh::{Presented, Worth};
use crate::session::sid;

/// How often a refresh token gives way to another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Each time: whoever asks takes what they are given.
    Always,
    /// In the second half of its time. Whoever is shown a page may have left it before it came, and
    /// would then present a token that another has followed.
    Seldom,
    /// Not at all: another site has sent the browser here, and can send it away.
    Never,
}

impl Core {
    /// Renews the tokens of a session.
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
            of: &[&client.counted()],
        }];
        self.limiter.take(&of_address).await?.succeeded().await;
        let presented = Presented::parse(token).ok_or_else(invalid)?;
        let (mut counted, mut keeps) = (false, false);
        // Whoever overtook it has rotated, so that the second look tells.
        for _ in 0..OVERTAKEN {
            let session = self
                .sessions
                .get(&cx, presented.handle())
                .await?
                .filter(|session| presented.is_of(&self.ring, session));
            let session = session
                .filter(|session| self.is_usable(session, client))
                .ok_or_else(invalid)?;
            if !std::mem::replace(&mut counted, true) {
                // Only real tokens count: whoever has seen the name of a session must not use up
                // what its owner may do.
                let of_session = [Hit {
                    bucket: Bucket::Refresh,
                    of: &[&presented.handle()],
                }];
                self.limiter.take(&of_session).await?.succeeded().await;
            }
            let user = self.owner(&cx, client, &session).await?;
            let renewed =
                match presented.worth(&session, client.now, self.config.auth.refresh.grace_seconds)
                {
                    Worth::Current
                        if pace == Pace::Never
                            || (pace == Pace::Seldom && self.is_fresh(&session, client)) =>
                    {
                        keeps = true;
                        session
                    }
                    Worth::Current => match self.rotate(&cx, client, &session).await {
                        Ok(rotated) => rotated,
                        // Another request was faster: what this token is worth now is seen anew.
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
                    Worth::JustRotated => session,
                    Worth::Reused => {
                        self.end(&cx, client, &session, Reason::Reused).await?;
                        return Err(refuse(REFRESH_REUSED));
                    }
                };
            let sid = sid::of(&self.ring, &renewed).ok_or_else(invalid)?;
            let mut tokens = self.tokens(&renewed, &sid, client.now)?;
            if keeps {
                // The browser has it. Given once more, it could take the place of one that another
                // window has got meanwhile.
                tokens.refresh = None;
            }
            return Ok((user, sid, tokens));
        }
        Err(Error::unavailable("the session kept changing"))
    }

    /// Whether any token of a session may still work, or be renewed.
    pub(crate) fn is_usable(&self, session: &Session, client: &Client) -> bool {
        let auth = &self.config.auth;
        let refresh = if auth.refresh.enabled {
            millis(auth.refresh.refresh_seconds)
        } else {
            0
        };
        session.is_usable(client.now, millis(auth.session.idle_seconds), refresh)
    }

    /// The sessions of a user that may still be used. `asking` is the one of the request, if it is
    /// theirs: it is, although what is written down of its activity may lie behind.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn active_sessions_of(
        &self,
        client: &Client,
        user: &str,
        asking: Option<&str>,
    ) -> Result<Vec<Session>> {
        let mut sessions = self.sessions_of(&client.cx(), user).await?;
        sessions.retain(|session| {
            asking == Some(session.handle.as_str()) || self.is_usable(session, client)
        });
        Ok(sessions)
    }

    /// One of them.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn active_session(
        &self,
        client: &Client,
        user: &str,
        handle: &str,
        asking: Option<&str>,
    ) -> Result<Session> {
        let session = self
            .sessions
            .get(&client.cx(), handle)
            .await?
            .filter(|session| session.user_id == user);
        session
            .filter(|session| asking == Some(handle) || self.is_usable(session, client))
            .ok_or_else(Error::not_found)
    }

    /// Whether a refresh token has most of its time before it, and needs no other so that the
    /// session goes on.
    fn is_fresh(&self, session: &Session, client: &Client) -> bool {
        let auth = &self.config.auth;
        let within =
            |since: Timestamp, most: i64| most == 0 || client.now.millis() - since.millis() < most;
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
    /// The refresh token that a browser was given, and the handle of its session: the one of those
    /// it sends that what stands beside it is of. A sibling domain can plant others, and nobody is
    /// to be signed in as somebody else, or kept from leaving, by them.
    ///
    /// # Errors
    /// When there are several and the store cannot tell which is the latest.
    pub(crate) async fn refresh_given<'a>(
        &self,
        cx: &Cx,
        headers: &'a HeaderMap,
    ) -> Result<Option<(&'a str, String)>> {
        let Once::Text(mark) = self.cookies.renews(headers) else {
            return Ok(None);
        };
        let candidate = |token: &'a str| {
            let presented = Presented::parse(token)?;
            csrf::is_of(mark, &csrf::renewing(&presented.handle()), &self.ring)
                .then_some((token, presented))
        };
        let mut found: Vec<(&str, Presented)> = self
            .cookies
            .refreshes(headers)
            .filter_map(candidate)
            .collect();
        // What is of the session by its name alone, or is an older one of it, takes nobody's place.
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

    /// Judges a refresh that was asked for with nothing but a cookie, which was `given` or not. A
    /// token that names no session has nothing to forge.
    ///
    /// # Errors
    /// 403 `csrf_failed`: also where a browser, which says so of itself, sends a token that it was
    /// not given.
    pub(crate) async fn judge_refresh(
        &self,
        client: &Client,
        headers: &HeaderMap,
        token: &str,
        given: bool,
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
            Some(sid) => match self.csrf.judge(
                &self.csrf.presented(headers, &self.cookies),
                &sid,
                &self.ring,
            ) {
                // Hosts that share their cookies by a domain share nothing that is of one of them,
                // and have to trust each other.
                Ok(())
                    if given
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
