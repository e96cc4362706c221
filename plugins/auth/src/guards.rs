//! Guards: the meaning of each name that a route's policy may use. No other code decides which
//! callers may call a route.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin::http::{GuardArg, GuardInput, NamedCheck, RouteAuth};
use linchpin::openapi::{Scheme, Security};
use linchpin::{Actor, ActorKind, Code, Error, Result};

use crate::config::{AuthConfig, StepUpSection};
use crate::error::{
    CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, MFA_REQUIRED, MFA_SETUP_REQUIRED,
    STEP_UP_REQUIRED, refuse,
};
use crate::session::cookies::Cookies;
use crate::session::{CheckedSession, is_fresh};

/// A valid session, in any state of its account. Used by routes that read the caller's account,
/// sign out, or cancel a deletion.
pub(crate) const SESSION: &str = "userSession";
/// A valid session of an active account, even if the account must still set up a second factor.
/// Used by the routes that set up this factor.
pub(crate) const ENROLLING: &str = "userEnrolling";

/// A valid session of an active account with every required factor.
const USER: &str = "userAuth";

/// A program with an API credential.
const BEARER: &str = "bearer";

/// `userAuth`, and the role of `auth.admin.role`.
pub(crate) const ADMIN: &str = "userAdmin";

/// A recent sign-in or step-up, for routes that take no proof in the body.
pub(crate) const RECENT: &str = "require_recent";

/// A verified email address.
const VERIFIED: &str = "require_verified_email";
/// A second factor, at sign-in or later in the session.
const MFA: &str = "require_mfa";
/// A recent step-up.
const STEP_UP: &str = "require_step_up";

/// The checked session of an actor; `None` if this plugin did not authenticate the actor.
pub(crate) fn checked_session(actor: &Actor) -> Option<&CheckedSession> {
    actor.attached.get::<CheckedSession>()
}

/// The session of a user.
fn session(actor: &Actor) -> Result<&CheckedSession> {
    match (&actor.kind, checked_session(actor)) {
        (ActorKind::User, Some(known)) => Ok(known),
        (ActorKind::Service, _) => Err(Error::forbidden()),
        _ => Err(Error::unauthorized()),
    }
}

impl CheckedSession {
    /// Returns the session if its account is not scheduled for deletion.
    ///
    /// # Errors
    /// 403 `deletion_scheduled`.
    pub(crate) fn require_active(&self) -> Result<&Self> {
        if self.restricted {
            Err(refuse(DELETION_SCHEDULED))
        } else {
            Ok(self)
        }
    }

    /// Returns the session if its account is active and has every required factor.
    ///
    /// # Errors
    /// 403 `deletion_scheduled`, `mfa_setup_required`.
    pub(crate) fn require_complete(&self) -> Result<&Self> {
        let known = self.require_active()?;
        if known.mfa_setup_required {
            Err(refuse(MFA_SETUP_REQUIRED))
        } else {
            Ok(known)
        }
    }
}

/// The check of `userAuth`.
fn user_auth(actor: &Actor) -> Result<()> {
    session(actor)?.require_complete().map(drop)
}

fn bearer(actor: &Actor) -> Result<()> {
    match actor.kind {
        ActorKind::Service => Ok(()),
        ActorKind::Anonymous => Err(Error::unauthorized()),
        _ => Err(Error::forbidden()),
    }
}

fn require_role(actor: &Actor, roles: &[&str]) -> Result<()> {
    match actor.kind {
        ActorKind::Anonymous => Err(Error::unauthorized()),
        _ if actor.has_any_role(roles) => Ok(()),
        _ => Err(Error::forbidden()),
    }
}

fn verified_email(actor: &Actor) -> Result<()> {
    if session(actor)?.email_verified {
        Ok(())
    } else {
        Err(refuse(EMAIL_NOT_VERIFIED))
    }
}

fn mfa(actor: &Actor) -> Result<()> {
    if session(actor)?.aal >= 2 {
        Ok(())
    } else {
        Err(refuse(MFA_REQUIRED))
    }
}

fn step_up(call: &GuardInput<'_>, default_seconds: u64) -> Result<()> {
    let seconds = match call.argument {
        Some(GuardArg::Int(seconds)) => u64::try_from(seconds).unwrap_or(0),
        _ => default_seconds,
    };
    let proved = session(call.actor)?.step_up_at;
    if proved.is_some_and(|at| is_fresh(at, call.now, seconds)) {
        Ok(())
    } else {
        Err(refuse(STEP_UP_REQUIRED))
    }
}

fn recent(call: &GuardInput<'_>, seconds: u64) -> Result<()> {
    if is_fresh(session(call.actor)?.auth_at, call.now, seconds) {
        Ok(())
    } else {
        Err(refuse(STEP_UP_REQUIRED))
    }
}

/// Security schemes for the OpenAPI document. All guards for users share the same schemes, so the
/// document contains no names of internal guards.
pub(crate) fn security(config: &AuthConfig) -> Vec<Security> {
    let session = &config.auth.session.transport;
    let refuses = |names: &[&str], codes: &[Code]| {
        Security::of(names.iter().copied()).refuses(codes.iter().copied())
    };
    let mut users = Security::of([USER, SESSION, ENROLLING, ADMIN])
        .by(Scheme::bearer_of(
            USER,
            "JWT",
            "The access token of a user.",
        ))
        .by(Scheme::header(
            "userToken",
            "x-user-token",
            "The access token of a user. It has priority over an API credential in the same request.",
        ));
    if session.cookies() {
        let cookie = Scheme::cookie(
            "sessionCookie",
            Cookies::new(config).token_name(),
            "The access token that the sign-in has set.",
        );
        let form = "The value of the cookie `csrf_token`. A request that changes data with a \
                    session cookie needs this header and the header `Origin`.";
        users = if config.security.csrf {
            users
                .by_both(cookie, Scheme::header("csrfToken", "x-csrf-token", form))
                .refuses_changes([CSRF_FAILED])
        } else {
            users.by(cookie)
        };
    }
    vec![
        users,
        Security::of([BEARER]).by(Scheme::bearer(BEARER, "A static API credential.")),
        refuses(&[USER, ENROLLING, ADMIN], &[DELETION_SCHEDULED]),
        refuses(&[USER, ADMIN], &[MFA_SETUP_REQUIRED]),
        refuses(&[VERIFIED], &[EMAIL_NOT_VERIFIED]),
        refuses(&[MFA], &[MFA_REQUIRED]),
        refuses(&[STEP_UP, RECENT], &[STEP_UP_REQUIRED]),
    ]
}

/// Checks the argument of `require_step_up`.
fn takes_seconds(argument: Option<GuardArg>) -> std::result::Result<(), String> {
    match argument {
        None | Some(GuardArg::Int(1..)) => Ok(()),
        // Nobody could pass with 0 seconds.
        _ => Err("a whole number of seconds, 1 or more, such as `require_step_up(300)`, or no argument: then `auth.stepUp.maxAgeSeconds` applies".to_owned()),
    }
}

fn takes_none(argument: Option<GuardArg>) -> std::result::Result<(), String> {
    if argument.is_none() {
        Ok(())
    } else {
        Err("none".to_owned())
    }
}

/// The guards of the app. `programs` says whether API credentials are configured; without them, a
/// route with `auth = "bearer"` is a start-up error.
pub(crate) fn registry(
    ages: &StepUpSection,
    admin_role: Option<&str>,
    programs: bool,
) -> RouteAuth {
    let mut named: BTreeMap<String, NamedCheck> = BTreeMap::new();
    named.insert(
        SESSION.to_owned(),
        NamedCheck::actor(|actor| session(actor).map(drop)),
    );
    named.insert(
        ENROLLING.to_owned(),
        NamedCheck::actor(|actor| session(actor)?.require_active().map(drop)),
    );
    // Without `auth.admin.role` there are no administrators.
    let admin_role = admin_role.map(str::to_owned);
    let admin = move |actor: &Actor| {
        user_auth(actor)?;
        if admin_role
            .as_deref()
            .is_some_and(|role| actor.has_any_role(&[role]))
        {
            Ok(())
        } else {
            Err(Error::forbidden())
        }
    };
    named.insert(ADMIN.to_owned(), NamedCheck::actor(admin));
    let programs = if programs {
        NamedCheck::actor(bearer)
    } else {
        NamedCheck::unset(
            "which no caller could pass: list its credential in `security.apiCredentials`, as { id, token, roles }",
        )
    };
    named.insert(BEARER.to_owned(), programs);
    named.insert(VERIFIED.to_owned(), NamedCheck::actor(verified_email));
    named.insert(MFA.to_owned(), NamedCheck::actor(mfa));
    let (step_up_seconds, recent_seconds) = (ages.max_age_seconds, ages.account_max_age_seconds);
    named.insert(
        STEP_UP.to_owned(),
        NamedCheck::guard(move |call| step_up(call, step_up_seconds)).taking(takes_seconds),
    );
    named.insert(
        RECENT.to_owned(),
        NamedCheck::guard(move |call| recent(call, recent_seconds)).taking(takes_none),
    );
    RouteAuth {
        user_auth: Arc::new(user_auth),
        require_role: Arc::new(require_role),
        named,
    }
}

#[cfg(test)]
mod tests {
    use linchpin::{Attached, Timestamp};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn user(change: impl FnOnce(&mut CheckedSession)) -> Actor {
        let mut known = CheckedSession {
            user_id: "u".into(),
            handle: "h".into(),
            sid: "s".into(),
            auth_at: at(1000),
            step_up_at: None,
            step_up_by: None,
            proved_factors: None,
            proved_only_by_passkey: false,
            aal: 1,
            email_verified: false,
            restricted: false,
            mfa_setup_required: false,
        };
        change(&mut known);
        Actor {
            attached: Attached::new(Arc::new(known)),
            ..Actor::user("u").with_roles(["editor"])
        }
    }

    fn code(result: Result<()>) -> &'static str {
        result.err().map_or("ok", |error| error.code().as_str())
    }

    #[test]
    fn each_guard_admits_only_its_callers() {
        let service = Actor {
            id: Some("robot".into()),
            kind: ActorKind::Service,
            ..Actor::anonymous()
        }
        .with_roles(["editor"]);
        // A user actor that another plugin created has no session here.
        let made_up = Actor::user("u");
        let restricted = user(|k| k.restricted = true);
        let enrolling = user(|k| k.mfa_setup_required = true);
        let registry = registry(&StepUpSection::default(), Some("editor"), true);
        let check = |name: &str, actor: &Actor| match registry.check(name) {
            Some(check) => code(check(actor)),
            None => "unknown",
        };
        for (name, expected) in [
            //               anonymous       user  service      made up         restricted            enrolling
            (
                "userAuth",
                [
                    "unauthorized",
                    "ok",
                    "forbidden",
                    "unauthorized",
                    "deletion_scheduled",
                    "mfa_setup_required",
                ],
            ),
            (
                ENROLLING,
                [
                    "unauthorized",
                    "ok",
                    "forbidden",
                    "unauthorized",
                    "deletion_scheduled",
                    "ok",
                ],
            ),
            (
                SESSION,
                [
                    "unauthorized",
                    "ok",
                    "forbidden",
                    "unauthorized",
                    "ok",
                    "ok",
                ],
            ),
            (
                ADMIN,
                [
                    "unauthorized",
                    "ok",
                    "forbidden",
                    "unauthorized",
                    "deletion_scheduled",
                    "mfa_setup_required",
                ],
            ),
            (
                "bearer",
                [
                    "unauthorized",
                    "forbidden",
                    "ok",
                    "forbidden",
                    "forbidden",
                    "forbidden",
                ],
            ),
            (
                "require_mfa",
                [
                    "unauthorized",
                    "mfa_required",
                    "forbidden",
                    "unauthorized",
                    "mfa_required",
                    "mfa_required",
                ],
            ),
        ] {
            let actors = [
                &Actor::anonymous(),
                &user(|_| {}),
                &service,
                &made_up,
                &restricted,
                &enrolling,
            ];
            assert_eq!(actors.map(|actor| check(name, actor)), expected, "{name}");
        }
        let admin = |role: Option<&str>| {
            code((super::registry(&StepUpSection::default(), role, true)
                .check(ADMIN)
                .unwrap())(&user(|_| {})))
        };
        assert_eq!(
            (admin(Some("admin")), admin(None)),
            ("forbidden", "forbidden")
        );
        assert_eq!(
            check("require_verified_email", &user(|_| {})),
            "email_not_verified"
        );
        assert_eq!(
            check("require_verified_email", &user(|k| k.email_verified = true)),
            "ok"
        );
        assert_eq!(check("require_mfa", &user(|k| k.aal = 2)), "ok");
        let role =
            |actor: &Actor, role: &'static str| code((registry.require_role)(actor, &[role]));
        assert_eq!(
            (role(&user(|_| {}), "editor"), role(&service, "editor")),
            ("ok", "ok")
        );
        assert_eq!(
            (
                role(&user(|_| {}), "admin"),
                role(&Actor::anonymous(), "admin")
            ),
            ("forbidden", "unauthorized")
        );
    }

    #[test]
    fn a_step_up_expires() {
        let fresh = user(|k| k.step_up_at = Some(at(1000)));
        let step_up_result = |actor: &Actor, argument: Option<GuardArg>, now: i64| {
            code(step_up(
                &GuardInput {
                    actor,
                    argument,
                    now: at(now),
                },
                300,
            ))
        };
        assert_eq!(
            (
                step_up_result(&fresh, None, 1300),
                step_up_result(&fresh, None, 1301)
            ),
            ("ok", "step_up_required")
        );
        assert_eq!(
            (
                step_up_result(&fresh, Some(GuardArg::Int(60)), 1060),
                step_up_result(&fresh, Some(GuardArg::Int(60)), 1061)
            ),
            ("ok", "step_up_required")
        );
        // A sign-in alone is not a step-up.
        assert_eq!(
            step_up_result(&user(|_| {}), None, 1000),
            "step_up_required"
        );
        assert_eq!(
            step_up_result(&Actor::anonymous(), None, 1000),
            "unauthorized"
        );
    }
}
