//! The parts of the test app besides the plugin: a settable clock, routes with every guard, and
//! changes of accounts by the app.

use std::sync::Arc;
use std::time::Duration;

use linchpin::entity::{FieldDesc, Kind};
use linchpin::http::{
    AnswerDesc, GuardDesc, Nothing, Partial, PluginCall, PluginRoute, Reply, Route,
};
use linchpin::prelude::*;
use linchpin::{Embedded, Plugin};
use linchpin_auth::{AuthService, FakeClock, NewUser, SecretText};
use serde_json::{Value as Json, json};

/// An entity of the app with a policy for each operation.
#[entity(routes(
    auth = "userAuth",
    list(roles = ["admin"]),
    get(guards(require_verified_email)),
    update(guards(require_step_up(300))),
    delete(auth = "bearer")
))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub text: String,
}

/// An entity that anonymous callers may read.
#[entity(routes(auth = "userAuth", get(auth = none), list(auth = none)))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary, default = uuid)]
    pub id: String,
    pub text: String,
}

pub static NOTES: Package = package!(name = "notes", entities = [entity(Note), entity(Notice)]);

#[derive(Embedded)]
pub struct Advance {
    pub advance_seconds: f64,
}

#[derive(Embedded)]
pub struct Change {
    pub suspended: bool,
    pub roles: Vec<String>,
    pub email_verified: bool,
}

#[derive(Embedded)]
pub struct Seed {
    pub identifier: String,
    pub password: Option<String>,
    pub roles: Option<Vec<String>>,
    pub email_verified: bool,
}

#[derive(Embedded)]
pub struct Find {
    pub identifier: String,
}

#[derive(Embedded)]
pub struct Ok {
    pub ok: bool,
}

const DONE: &[AnswerDesc] = &[AnswerDesc::of::<Ok>(200, "Done.")];
static CLOCK: Route<Advance> = Route::post("clock", "clock")
    .of("testbed")
    .public()
    .answers(DONE);
static USERS: Route<Partial<Change>> = Route::post("users", "users/{id}")
    .of("testbed")
    .public()
    .answers(DONE);
static SEED: Route<Seed> = Route::post("seed", "users")
    .of("testbed")
    .public()
    .answers(DONE);
static FIND: Route<Find> = Route::post("find", "find")
    .of("testbed")
    .public()
    .answers(DONE);
static STEP_UP_SESSION: Route<Nothing> = Route::post("step_up_session", "sessions/{id}/step-up")
    .of("testbed")
    .public()
    .answers(DONE);
static ACTOR: Route<Nothing> = Route::get("actor", "actor")
    .of("testbed")
    .public()
    .query(&[FieldDesc::new("x", "x", "x", Kind::String, true)]);
static USER: Route<Nothing> = Route::get("user", "protected/user")
    .of("testbed")
    .answers(DONE);
static ADMIN: Route<Nothing> = Route::get("admin", "protected/admin")
    .of("testbed")
    .policy(linchpin::http::PolicyDesc::INHERIT.roles(&["admin"]))
    .answers(DONE);
static STEP_UP: Route<Nothing> = Route::get("step_up", "protected/step-up")
    .of("testbed")
    .guards(&[GuardDesc::new("require_step_up")])
    .answers(DONE);
static VERIFIED: Route<Nothing> = Route::get("verified", "protected/verified")
    .of("testbed")
    .guards(&[GuardDesc::new("require_verified_email")])
    .answers(DONE);
static MFA: Route<Nothing> = Route::get("mfa", "protected/mfa")
    .of("testbed")
    .guards(&[GuardDesc::new("require_mfa")])
    .answers(DONE);

/// The routes under `/__test`.
pub struct TestBed {
    pub clock: Arc<FakeClock>,
}

fn done() -> linchpin::Result<Reply> {
    Reply::json(200, &Ok { ok: true })
}

impl Plugin for TestBed {
    fn name(&self) -> &'static str {
        "testbed"
    }

    fn routes(&self) -> Vec<PluginRoute> {
        let clock = Arc::clone(&self.clock);
        let protected =
            |route: &'static Route<Nothing>| route.bind("/__test", |_, _| async { done() });
        vec![
            CLOCK.bind("/__test", move |_, input: Advance| {
                clock.advance(Duration::from_secs_f64(input.advance_seconds));
                async { done() }
            }),
            USERS.bind("/__test", |call: PluginCall, mut input: Partial<Change>| async move {
                let service = call.adapters.provided::<AuthService>()?;
                match input.take::<bool>("suspended")? {
                    Some(true) => drop(service.suspend(call.param(0), Some("a test".to_owned())).await?),
                    Some(false) => drop(service.unsuspend(call.param(0)).await?),
                    None => {}
                }
                if let Some(roles) = input.take("roles")? {
                    service.set_roles(call.param(0), roles).await?;
                }
                if let Some(verified) = input.take("emailVerified")? {
                    service.set_email_verified(call.param(0), verified).await?;
                }
                done()
            }),
            SEED.bind("/__test", |call: PluginCall, input: Seed| async move {
                let service = call.adapters.provided::<AuthService>()?;
                let mut new = NewUser::new(input.identifier.as_str());
                new.password = input.password.map(SecretText::from);
                new.roles = input.roles;
                new.email_verified = input.email_verified;
                let made = service.create_user(new).await?;
                assert_eq!(service.account_by_identifier(&input.identifier).await?, service.account(&made.id).await?);
                Reply::json(200, &json!({ "id": made.id, "roles": made.roles, "verified": made.email_verified_at.is_some() }))
            }),
            FIND.bind("/__test", |call: PluginCall, input: Find| async move {
                let account = call.adapters.provided::<AuthService>()?.account_by_identifier(&input.identifier).await?;
                Reply::json(200, &json!({ "id": account.map(|account| account.id) }))
            }),
            STEP_UP_SESSION.bind("/__test", |call: PluginCall, _| async move {
                call.adapters.provided::<AuthService>()?.step_up_session(call.param(0)).await?;
                done()
            }),
            ACTOR.bind("/__test", |call: PluginCall, _| async move {
                let actor = call.cx.get_actor().unwrap();
                let body: Json = json!({
                    "id": actor.id, "kind": actor.kind.as_str(), "tenantId": actor.tenant_id, "sessionId": actor.session_id,
                    "roles": actor.roles, "claims": actor.claims,
                });
                Reply::json(200, &body)
            }),
            protected(&USER),
            protected(&ADMIN),
            protected(&STEP_UP),
            protected(&VERIFIED),
            protected(&MFA),
        ]
    }
}
