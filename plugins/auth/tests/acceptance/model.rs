//! A model of the sign-in state machine: the possible calls, the expected responses, and the
//! invariants of every token. `model_walks` runs random walks, `model_search` visits every state.

use serde_json::{Value as Json, json};

use crate::factor::{app_with, code_at, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

const OTHER: &str = "amber-walrus-17-dune";
/// The number of wrong codes that a challenge allows by default.
pub const TRIES: i64 = 5;
pub const CHALLENGE_SECONDS: i64 = 300;

/// A possible next action.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    Login { right: bool, on_device: bool },
    Verify(Answer),
    Enrol,
    Remove,
    SetPassword,
    StepUp,
    Refresh { again: bool },
    Logout,
    EndOtherSessions,
    Suspend,
    Unsuspend,
    Wait(i64),
}

#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Right,
    Wrong,
    Recovery,
    UsedRecovery,
}

/// Chooses one of several items.
pub trait Choose {
    /// Returns a number below `n`.
    fn below(&mut self, n: usize) -> usize;
}

pub struct Session {
    pub token: String,
    pub refresh: String,
    pub previous_refresh: Option<String>,
    /// The time of the last sign-in or step-up.
    pub since: i64,
    /// The value of [`Model::factors`] for which the session has proved a factor.
    pub proved: Option<i64>,
}

pub struct Challenge {
    token: String,
    pub epoch: i64,
    pub attempts_left: i64,
    pub since: i64,
    sessions_opened: usize,
    pub ended: bool,
}

/// The state of a user in the model.
#[derive(Default)]
pub struct Model {
    pub email: String,
    pub id: String,
    pub second_password: bool,
    pub suspended: bool,
    pub secret: Option<String>,
    /// Incremented by every change of the factors.
    pub factors: i64,
    pub last_step: i64,
    pub unused: Vec<String>,
    pub used: Vec<String>,
    /// Incremented by every change of the password or the factors.
    pub epoch: i64,
    pub sessions: Vec<Session>,
    pub challenges: Vec<Challenge>,
    pub device: Option<String>,
    /// Tokens of sessions that have ended or were renewed.
    pub ended_tokens: Vec<String>,
    /// The number of wrong answers that end a challenge.
    pub tries: i64,
}

pub type WalkResult = Result<(), String>;

fn check(holds: bool, what: &str, reply: &Reply) -> WalkResult {
    if holds {
        Ok(())
    } else {
        Err(format!(
            "{what}: {} {}",
            reply.status,
            String::from_utf8_lossy(&reply.body)
        ))
    }
}

impl Model {
    /// A user who has just signed up.
    pub async fn of(app: &Server, email: String, tries: i64) -> Self {
        let who = app.register(&email).await;
        let first = Session {
            token: who.token,
            refresh: who.refresh,
            previous_refresh: None,
            since: app.now_seconds(),
            proved: None,
        };
        Self {
            email,
            id: who.id,
            sessions: vec![first],
            tries,
            ..Self::default()
        }
    }

    fn password(&self) -> &'static str {
        if self.second_password { OTHER } else { GOOD }
    }

    fn end_sessions(&mut self, which: impl Fn(usize) -> bool) {
        let mut at = 0;
        let ended_tokens = &mut self.ended_tokens;
        self.sessions.retain(|session| {
            let ends = which(at);
            at += 1;
            if ends {
                ended_tokens.push(session.token.clone());
            }
            !ends
        });
    }

    /// Adds the session of a response to the model.
    fn add_session(&mut self, reply: &Reply, now: i64, proved: Option<i64>) {
        let who = reply.signed_in();
        if !reply.text("deviceToken").is_empty() {
            self.device = Some(reply.text("deviceToken"));
        }
        self.sessions.push(Session {
            token: who.token,
            refresh: who.refresh,
            previous_refresh: None,
            since: now,
            proved,
        });
    }

    pub async fn take(&mut self, app: &Server, dice: &mut dyn Choose, step: Move) -> WalkResult {
        let now = app.now_seconds();
        match step {
            Move::Login { right, on_device } => {
                let password = if right {
                    self.password()
                } else {
                    "nope-nope-nope"
                };
                let body = json!({ "email": self.email, "password": password }).to_string();
                let mut headers = vec![("content-type", "application/json")];
                if let Some(device) = self.device.as_deref().filter(|_| on_device) {
                    headers.push(("x-device-token", device));
                }
                let reply = app.raw("POST", "/auth/login", &headers, &body).await;
                let signed_in = !reply.text("token").is_empty();
                check(
                    !(signed_in && self.secret.is_some()),
                    "invariant: a session without the second factor",
                    &reply,
                )?;
                check(
                    !(signed_in && (self.suspended || !right)),
                    "invariant: a session of a suspended account or for a wrong password",
                    &reply,
                )?;
                match (right, self.suspended, self.secret.is_some()) {
                    (false, ..) => check(reply.status == 401, "wrong password", &reply),
                    (_, true, _) => check(reply.status == 403, "suspended", &reply),
                    (_, _, true) => {
                        check(
                            reply.status == 200 && reply.json()["mfaRequired"] == json!(true),
                            "a challenge",
                            &reply,
                        )?;
                        let token = reply.text("mfaToken");
                        let epoch = self.epoch;
                        self.challenges.push(Challenge {
                            token,
                            epoch,
                            attempts_left: self.tries,
                            since: now,
                            sessions_opened: 0,
                            ended: false,
                        });
                        Ok(())
                    }
                    (_, _, false) => {
                        check(signed_in, "a session", &reply)?;
                        self.add_session(&reply, now, None);
                        Ok(())
                    }
                }
            }
            Move::Verify(answer) => self.verify(app, dice, answer).await,
            Move::Enrol => {
                let Some(at) = self.choose_session(dice) else {
                    return Ok(());
                };
                let session = &self.sessions[at];
                let recent = now - session.since <= 900;
                let may = self.secret.is_none() || session.proved == Some(self.factors);
                let setup = app
                    .with(&session.token, "POST", "/auth/mfa/setup", None)
                    .await;
                check(
                    may || setup.status == 403,
                    "invariant: a set-up without proof of the existing factor",
                    &setup,
                )?;
                if !recent || !may {
                    return check(
                        setup.status == 403,
                        "a set-up without a recent sign-in",
                        &setup,
                    );
                }
                let secret = setup.text("secret");
                let code = code_at(app, &secret, 0);
                let done = app
                    .with(
                        &session.token,
                        "POST",
                        "/auth/mfa/verify-setup",
                        Some(json!({ "code": code })),
                    )
                    .await;
                check(done.status == 200, "enrolling", &done)?;
                if self.secret.is_none() {
                    (self.unused, self.used) = (texts(&done.json()["recoveryCodes"]), Vec::new());
                }
                (self.secret, self.last_step) = (Some(secret), now.div_euclid(30));
                self.epoch += 1;
                self.factors += 1;
                self.sessions[at].proved = Some(self.factors);
                Ok(())
            }
            Move::Remove => {
                let (Some(at), Some(secret)) = (self.choose_session(dice), self.secret.clone())
                else {
                    return Ok(());
                };
                let right = now.div_euclid(30) > self.last_step;
                let proof = json!({ "code": code_at(app, &secret, 0) });
                let reply = app
                    .with(&self.sessions[at].token, "DELETE", "/auth/mfa", Some(proof))
                    .await;
                check(
                    reply.status == if right { 200 } else { 401 },
                    "removing",
                    &reply,
                )?;
                if right {
                    self.secret = None;
                    (self.unused, self.used) = (Vec::new(), Vec::new());
                    self.epoch += 1;
                    self.factors += 1;
                }
                Ok(())
            }
            Move::SetPassword => {
                let Some(at) = self.choose_session(dice) else {
                    return Ok(());
                };
                let next = if self.second_password { GOOD } else { OTHER };
                let body = json!({ "password": next, "currentPassword": self.password() });
                let reply = app
                    .with(
                        &self.sessions[at].token,
                        "POST",
                        "/auth/set-password",
                        Some(body),
                    )
                    .await;
                check(reply.status == 200, "another password", &reply)?;
                self.second_password = !self.second_password;
                self.epoch += 1;
                self.end_sessions(|other| other != at);
                Ok(())
            }
            Move::StepUp => {
                let Some(at) = self.choose_session(dice) else {
                    return Ok(());
                };
                let (body, right) = match &self.secret {
                    Some(secret) => (
                        json!({ "method": "totp", "code": code_at(app, secret, 0) }),
                        now.div_euclid(30) > self.last_step,
                    ),
                    None => (
                        json!({ "method": "password", "password": self.password() }),
                        true,
                    ),
                };
                let reply = app
                    .with(
                        &self.sessions[at].token,
                        "POST",
                        "/auth/step-up",
                        Some(body),
                    )
                    .await;
                check(
                    reply.status == if right { 200 } else { 401 },
                    "step-up",
                    &reply,
                )?;
                if right {
                    if self.secret.is_some() {
                        self.last_step = now.div_euclid(30);
                    }
                    let who = reply.signed_in();
                    let session = &mut self.sessions[at];
                    if self.secret.is_some() {
                        session.proved = Some(self.factors);
                    }
                    self.ended_tokens
                        .push(std::mem::replace(&mut session.token, who.token));
                    (session.refresh, session.previous_refresh, session.since) =
                        (who.refresh, None, now);
                }
                Ok(())
            }
            Move::Refresh { again } => {
                let Some(at) = self.choose_session(dice) else {
                    return Ok(());
                };
                let session = &mut self.sessions[at];
                let refresh = match (&session.previous_refresh, again) {
                    (Some(previous), true) => previous.clone(),
                    _ => session.refresh.clone(),
                };
                let reused = refresh != session.refresh;
                let reply = app
                    .post("/auth/refresh", json!({ "refreshToken": refresh }))
                    .await;
                if reused {
                    check(
                        reply.status == 401,
                        "invariant: a session continues after a refresh token was used twice",
                        &reply,
                    )?;
                    self.end_sessions(|other| other == at);
                    return Ok(());
                }
                check(reply.status == 200, "refresh", &reply)?;
                let who = reply.signed_in();
                // Both access tokens belong to one session and end with it.
                session.previous_refresh =
                    Some(std::mem::replace(&mut session.refresh, who.refresh));
                session.token = who.token;
                Ok(())
            }
            Move::Logout => {
                let Some(at) = self.choose_session(dice) else {
                    return Ok(());
                };
                let refresh = self.sessions[at].refresh.clone();
                let reply = app
                    .with(&self.sessions[at].token, "POST", "/auth/logout", None)
                    .await;
                check(reply.status == 200, "logout", &reply)?;
                self.end_sessions(|other| other == at);
                let reply = app
                    .post("/auth/refresh", json!({ "refreshToken": refresh }))
                    .await;
                check(
                    reply.status == 401,
                    "invariant: an ended session is renewed",
                    &reply,
                )
            }
            Move::EndOtherSessions => {
                let Some(at) = self.choose_session(dice) else {
                    return Ok(());
                };
                let reply = app
                    .with(
                        &self.sessions[at].token,
                        "POST",
                        "/auth/sessions/revoke-others",
                        None,
                    )
                    .await;
                check(reply.status == 200, "ending the other sessions", &reply)?;
                self.end_sessions(|other| other != at);
                Ok(())
            }
            Move::Suspend | Move::Unsuspend => {
                let suspended = matches!(step, Move::Suspend);
                app.change(&self.id, json!({ "suspended": suspended }))
                    .await;
                // Setting the same state again changes nothing.
                if std::mem::replace(&mut self.suspended, suspended) == suspended {
                    return Ok(());
                }
                for challenge in &mut self.challenges {
                    challenge.ended = true;
                }
                if suspended {
                    self.end_sessions(|_| true);
                }
                Ok(())
            }
            Move::Wait(seconds) => {
                app.advance(seconds).await;
                Ok(())
            }
        }
    }

    async fn verify(&mut self, app: &Server, dice: &mut dyn Choose, answer: Answer) -> WalkResult {
        if self.challenges.is_empty() {
            return Ok(());
        }
        let now = app.now_seconds();
        // The latest challenge is chosen more often than others.
        let at = if dice.below(3) > 0 {
            self.challenges.len() - 1
        } else {
            dice.below(self.challenges.len())
        };
        let (code, right) = match (answer, &self.secret) {
            (Answer::Right, Some(secret)) => {
                (code_at(app, secret, 0), now.div_euclid(30) > self.last_step)
            }
            (Answer::Wrong, Some(secret)) => (wrong(&code_at(app, secret, 0)), false),
            (Answer::Recovery, _) if !self.unused.is_empty() => (self.unused[0].clone(), true),
            (Answer::UsedRecovery, _) if !self.used.is_empty() => {
                (self.used[dice.below(self.used.len())].clone(), false)
            }
            _ => ("ABCD-EFGH-2345".to_owned(), false),
        };
        let body: Json =
            json!({ "mfaToken": self.challenges[at].token, "code": code, "trustDevice": true });
        let reply = app.post("/auth/mfa/verify", body).await;
        let (epoch, suspended) = (self.epoch, self.suspended);
        let challenge = &mut self.challenges[at];
        let is_pending = !challenge.ended
            && challenge.epoch == epoch
            && now - challenge.since < CHALLENGE_SECONDS
            && !suspended
            && challenge.attempts_left > 0;
        if reply.status == 200 {
            challenge.sessions_opened += 1;
            check(
                challenge.sessions_opened == 1,
                "invariant: two sessions of one challenge",
                &reply,
            )?;
            check(
                is_pending,
                "invariant: a session of an ended challenge",
                &reply,
            )?;
            check(
                right,
                "invariant: a session for a wrong or used code",
                &reply,
            )?;
        }
        if !is_pending {
            // The suspension is reported only for a pending challenge, and a suspended account has
            // none.
            return check(
                reply.status == 401 && reply.text("code") == "invalid_challenge",
                "an ended challenge",
                &reply,
            );
        }
        challenge.attempts_left -= 1;
        if !right {
            return check(
                reply.status == 401 && reply.text("code") == "invalid_code",
                "a wrong code",
                &reply,
            );
        }
        check(reply.status == 200, "a right code", &reply)?;
        challenge.ended = true;
        match answer {
            Answer::Recovery => {
                let used = self.unused.remove(0);
                self.used.push(used);
            }
            _ => self.last_step = now.div_euclid(30),
        }
        self.add_session(&reply, now, Some(self.factors));
        Ok(())
    }

    fn choose_session(&self, dice: &mut dyn Choose) -> Option<usize> {
        (!self.sessions.is_empty()).then(|| dice.below(self.sessions.len()))
    }

    /// Checks that the server accepts every valid token of the model, and refuses the latest
    /// `ended` invalid ones.
    pub async fn check_tokens(&self, app: &Server, ended: usize) -> WalkResult {
        for session in &self.sessions {
            let reply = app.me(&session.token).await;
            check(reply.status == 200, "a valid session", &reply)?;
        }
        for token in self.ended_tokens.iter().rev().take(ended) {
            let reply = app.me(token).await;
            check(reply.status == 401, "invariant: an ended session", &reply)?;
        }
        Ok(())
    }
}

/// A server that behaves like the model, except for `change`.
pub async fn server(store: &Store, change: impl FnOnce(&mut linchpin_auth::AuthConfig)) -> Server {
    let post = Post::default();
    let settings = |auth: linchpin_auth::Auth| {
        auth.refresh_tokens().configure(|config| {
            config.auth.rate_limit.enabled = false;
            config.auth.session.max_per_user = 1000;
            // A refresh token that is used twice always counts as reuse. Access tokens do not
            // expire during a walk.
            config.auth.refresh.grace_seconds = 0;
            config.auth.refresh.access_seconds = 86_400;
            change(config);
        })
    };
    app_with(store, &post, settings).await
}
