//! `rank` of a permission: the caller is compared with the user whom a record is about.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use linchpin::{AccessRequest, BoxFuture, Code, Decision, Evaluator, Plugin, PostCx, RankRequest};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};
use crate::tenancy::call;

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum State {
    Active,
    Lifted,
}

/// Callers with the grant ban users of a lower rank.
#[entity(
    unique(container_id, user_id),
    routes(
        create(permission(requires = "ban", or = ["rule"], owner_field = user_id, resource = container_id, rank = user_id)),
        update(permission(requires = "ban", owner_field = issued_by, resource = container_id, rank = user_id)),
        delete(permission(requires = "ban", resource = container_id, rank = user_id, hide)),
        get(auth = none),
        list(auth = none),
    )
)]
#[derive(Clone, Debug)]
pub struct Ban {
    #[field(primary)]
    pub id: String,
    #[field(length = ..=50)]
    pub container_id: String,
    pub user_id: String,
    #[field(default = ctx(actor.id))]
    pub issued_by: String,
    pub reason: Option<String>,
    #[field(default = State::Active)]
    pub state: State,
    #[field(default = 0)]
    pub strikes: i64,
}

#[operation(
    kind = "transition", field = state, from = State::Active, to = State::Lifted,
    route(permission(requires = "ban", resource = container_id, rank = user_id))
)]
pub const LIFT: Operation<Ban>;
#[operation(kind = "increment", field = strikes, route(permission(requires = "ban", rank = user_id)))]
pub const STRIKE: Operation<Ban>;
#[operation(kind = "field_update", set(user_id), route(permission(requires = "ban", resource = container_id, rank = user_id)))]
pub const MOVE_TO: Operation<Ban>;
#[operation(
    kind = "upsert", match(container_id, user_id), set(reason), on_create(id = uuid()),
    route(permission(requires = "ban", resource = container_id, rank = user_id))
)]
pub const ENSURE: Operation<Ban>;
#[operation(
    kind = "custom", http(method = "POST", path = "{id}/note"), handler(memory = note, sqlite = note, postgres = note), output = String,
    route(permission(requires = "ban", rank = user_id))
)]
pub const NOTE: Operation<Ban>;

#[allow(clippy::unused_async)] // the function of an operation must be async
async fn note<S: linchpin::operation::CustomStore>(
    _: CustomCall<Ban, S>,
    _: String,
) -> Result<String> {
    Ok("noted".to_owned())
}

/// A warning whose path contains its container; it may refer to a user.
#[entity(
    parent_path = "containers/{container_id}",
    scope(container_id = param(container_id)),
    routes(permission(requires = "warn", resource = container_id), create(permission(requires = "warn", resource = container_id, rank = about)),
        update(permission(requires = "warn", resource = container_id, rank = about)))
)]
#[derive(Clone, Debug)]
pub struct Warning {
    #[field(primary)]
    pub id: String,
    pub container_id: String,
    pub about: Option<String>,
    pub text: String,
}

pub static MODERATION: Package = package!(
    name = "moderation",
    entities = [
        entity(Ban, [LIFT, STRIKE, MOVE_TO, ENSURE, NOTE]),
        entity(Warning, [])
    ]
);

struct StaffRanks;

/// The rank of a user by name, or of an actor by role.
fn level(name: &str) -> u8 {
    match name.split('-').next() {
        Some("admin") => 4,
        Some("owner") => 3,
        Some("mod") => 2,
        _ => 1,
    }
}

impl Evaluator for StaffRanks {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let decision = match request.actor {
            actor if actor.has_any_role(&["muted"]) => Decision::Deny,
            actor if actor.has_any_role(&["admin", "owner", "mod"]) && request.action != "rule" => {
                Decision::Allow
            }
            _ => Decision::Abstain,
        };
        Box::pin(async { Ok(decision) })
    }

    fn rank<'a>(&'a self, request: RankRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(async move {
            let RankRequest { access, target } = request;
            assert!(
                access.action == "ban" || access.action == "warn",
                "the action that was granted"
            );
            if target == "broken" {
                return Err(Error::internal("the ranks are unavailable"));
            }
            if access.actor.id.as_deref() == Some(target) {
                return Ok(Decision::DenyWith(Error::new(
                    Code::Forbidden,
                    "not oneself",
                )));
            }
            let own = access
                .actor
                .roles
                .iter()
                .map(|role| level(role))
                .max()
                .unwrap_or_default();
            let lenient =
                access.resource.and_then(|resource| resource.as_text()) == Some("lenient");
            Ok(
                if own > level(target) || (lenient && own == level(target)) {
                    Decision::Allow
                } else {
                    Decision::Deny
                },
            )
        })
    }

    fn ranks(&self) -> bool {
        true
    }
}

struct EvaluatorPlugin<E>(fn() -> E);

impl<E: Evaluator> Plugin for EvaluatorPlugin<E> {
    fn name(&self) -> &'static str {
        "judge"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_evaluator((self.0)()) })
    }
}

fn with_ranks(app: App) -> App {
    app.plugin(EvaluatorPlugin(|| StaffRanks))
}

cases!(&crate::ranks::MODERATION, crate::ranks::with_ranks =>
    a_create_compares_ranks, changes_of_one_record_compare_ranks,
    a_move_compares_the_ranks_of_both_targets, an_upsert_compares_ranks, owners_need_no_rank,
    ranks_apply_below_a_parent_path, the_document_lists_ranks,
);

async fn call_as(s: &Server, who: (&str, &[&str]), method: &str, path: &str, body: Json) -> Reply {
    call(s, &s.token(who.0, who.1), method, path, body).await
}

const MOD: (&str, &[&str]) = ("mod-1", &["mod"]);
const OWNER: (&str, &[&str]) = ("owner-1", &["owner"]);
const WITHOUT_GRANT: (&str, &[&str]) = ("x", &[]);

fn ban(id: &str, container: &str, user: &str) -> Json {
    json!({"id": id, "containerId": container, "userId": user})
}

async fn a_create_compares_ranks(s: &Server) {
    assert_eq!(
        call_as(s, MOD, "POST", "/bans", ban("a", "c", "member"))
            .await
            .status,
        201
    );
    for (who, user) in [
        (MOD, "owner-9"),
        (MOD, "mod-2"),
        (WITHOUT_GRANT, "member-2"),
        (("m", &["mod", "muted"][..]), "member-2"),
    ] {
        assert_eq!(
            call_as(s, who, "POST", "/bans", ban("b", "c", user))
                .await
                .code(),
            (403, "forbidden"),
            "{who:?} {user}"
        );
    }
    let oneself = call_as(s, MOD, "POST", "/bans", ban("b", "c", "mod-1")).await;
    assert_eq!(
        (oneself.status, &oneself.json()["error"]),
        (403, &json!("not oneself"))
    );
    // The evaluator gets the container: it is more permissive in this one.
    assert_eq!(
        call_as(s, MOD, "POST", "/bans", ban("b", "lenient", "mod-2"))
            .await
            .status,
        201
    );
    assert_eq!(
        call_as(s, OWNER, "POST", "/bans", ban("c", "c", "mod-2"))
            .await
            .status,
        201
    );
    // An error of the evaluator is no grant.
    assert_eq!(
        call_as(s, OWNER, "POST", "/bans", ban("d", "c", "broken"))
            .await
            .code(),
        (503, "unavailable")
    );
    // Invalid input is reported first, as everywhere.
    call_as(
        s,
        MOD,
        "POST",
        "/bans",
        json!({"id": "d", "containerId": "x".repeat(51), "userId": "owner-9"}),
    )
    .await
    .problem("max_length", "containerId");
    assert_eq!(
        s.get("/bans").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

/// Routes on one record read it first: a missing record is 404, a refusal 403. A refused call
/// writes nothing.
async fn changes_of_one_record_compare_ranks(s: &Server) {
    for (id, user) in [("low", "member"), ("high", "mod-7")] {
        assert_eq!(
            call_as(s, OWNER, "POST", "/bans", ban(id, "c", user))
                .await
                .status,
            201
        );
    }
    let before = s.get("/bans/high").await.json();
    for (method, path, body) in [
        ("PATCH", "", json!({"reason": "r"})),
        ("POST", "/lift", Json::Null),
        ("POST", "/strike", Json::Null),
        ("PATCH", "/move-to", json!({"userId": "member-5"})),
        ("POST", "/note", Json::Null),
    ] {
        assert_eq!(
            call_as(s, MOD, method, &format!("/bans/high{path}"), body.clone())
                .await
                .code(),
            (403, "forbidden"),
            "{method} {path}"
        );
        assert_eq!(
            call_as(s, MOD, method, &format!("/bans/none{path}"), body.clone())
                .await
                .code(),
            (404, "not_found"),
            "{method} {path}"
        );
        assert_eq!(s.get("/bans/high").await.json(), before, "{method} {path}");
        let done = call_as(s, MOD, method, &format!("/bans/low{path}"), body).await;
        assert_eq!(done.status, 200, "{method} {path} {done:?}");
    }
    // With `hide`, the record looks missing.
    assert_eq!(
        call_as(s, MOD, "DELETE", "/bans/high", Json::Null)
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(
        call_as(s, OWNER, "DELETE", "/bans/high", Json::Null)
            .await
            .status,
        204
    );
}

/// The new target of a record is compared too.
async fn a_move_compares_the_ranks_of_both_targets(s: &Server) {
    assert_eq!(
        call_as(s, MOD, "POST", "/bans", ban("a", "c", "member"))
            .await
            .status,
        201
    );
    for (method, path) in [("PATCH", "/bans/a"), ("PATCH", "/bans/a/move-to")] {
        assert_eq!(
            call_as(s, MOD, method, path, json!({"userId": "owner-2"}))
                .await
                .code(),
            (403, "forbidden"),
            "{path}"
        );
        assert_eq!(s.get("/bans/a").await.json()["userId"], "member", "{path}");
        assert_eq!(
            call_as(s, MOD, method, path, json!({"userId": "member"}))
                .await
                .status,
            200,
            "{path}: the target stays"
        );
    }
    assert_eq!(
        call_as(
            s,
            MOD,
            "PATCH",
            "/bans/a",
            json!({"userId": "mod-2", "containerId": "lenient"})
        )
        .await
        .status,
        200
    );
    assert_eq!(
        call_as(s, MOD, "PATCH", "/bans/a", json!({"containerId": "c"}))
            .await
            .code(),
        (403, "forbidden"),
        "in this container, the rank of the caller is too low"
    );
}

async fn an_upsert_compares_ranks(s: &Server) {
    let body = |user: &str| json!({"containerId": "c", "userId": user, "reason": "r"});
    assert_eq!(
        call_as(s, MOD, "POST", "/bans/ensure", body("mod-2"))
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call_as(s, MOD, "POST", "/bans/ensure", body("member"))
            .await
            .status,
        201
    );
    assert_eq!(
        call_as(s, MOD, "POST", "/bans/ensure", body("member"))
            .await
            .status,
        200
    );
    assert_eq!(
        call_as(s, OWNER, "POST", "/bans/ensure", body("mod-2"))
            .await
            .status,
        201
    );
    assert_eq!(
        call_as(s, MOD, "POST", "/bans/ensure", body("mod-2"))
            .await
            .code(),
        (403, "forbidden")
    );
}

/// Callers need no rank for their own records: a rank restricts grants only.
async fn owners_need_no_rank(s: &Server) {
    let own = call_as(
        s,
        ("owner-5", &[]),
        "POST",
        "/bans",
        ban("own", "c", "owner-5"),
    )
    .await;
    assert_eq!(
        (own.status, &own.json()["issuedBy"]),
        (201, &json!("owner-5"))
    );
    assert_eq!(
        call_as(
            s,
            ("owner-5", &[]),
            "PATCH",
            "/bans/own",
            json!({"reason": "mine"})
        )
        .await
        .status,
        200
    );
    assert_eq!(
        call_as(
            s,
            WITHOUT_GRANT,
            "PATCH",
            "/bans/own",
            json!({"reason": "theirs"})
        )
        .await
        .code(),
        (403, "forbidden")
    );
    // A caller with a grant is compared, even for a record that they created.
    assert_eq!(
        call_as(
            s,
            ("owner-5", &["mod"]),
            "PATCH",
            "/bans/own",
            json!({"reason": "mine"})
        )
        .await
        .status,
        403
    );
}

async fn ranks_apply_below_a_parent_path(s: &Server) {
    let at = "/containers/c/warnings";
    let warning = |id: &str, about: Json| json!({"id": id, "about": about, "text": "t"});
    assert_eq!(
        call_as(s, MOD, "POST", at, warning("a", json!("member")))
            .await
            .status,
        201
    );
    assert_eq!(
        call_as(s, MOD, "POST", at, warning("b", json!("owner-1")))
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call_as(
            s,
            MOD,
            "POST",
            "/containers/lenient/warnings",
            warning("c", json!("mod-2"))
        )
        .await
        .status,
        201
    );
    assert_eq!(
        call_as(s, MOD, "POST", at, warning("d", Json::Null))
            .await
            .status,
        201,
        "about nobody"
    );
    assert_eq!(
        call_as(
            s,
            MOD,
            "PATCH",
            &format!("{at}/a"),
            json!({"about": "owner-1"})
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call_as(s, MOD, "PATCH", &format!("{at}/a"), json!({"text": "u"}))
            .await
            .status,
        200
    );
    assert_eq!(
        call_as(
            s,
            WITHOUT_GRANT,
            "PATCH",
            &format!("{at}/a"),
            json!({"text": "u"})
        )
        .await
        .code(),
        (403, "forbidden")
    );
}

async fn the_document_lists_ranks(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let permission = &document["paths"]["/bans"]["post"]["x-linchpin-permission"];
    assert_eq!(permission["rank"], "userId", "{permission}");
}

/// A policy with `rank` and an evaluator without ranks are a start-up error.
#[tokio::test]
async fn a_policy_with_rank_needs_an_evaluator_with_ranks() {
    struct Plain;
    impl Evaluator for Plain {
        fn decide<'a>(&'a self, _: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
            Box::pin(async { Ok(Decision::Allow) })
        }
    }
    let config = || {
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret(crate::server::SECRET)
    };
    let app = App::new(config())
        .plugin(JwtAuth::new())
        .package(&MODERATION)
        .plugin(EvaluatorPlugin(|| Plain));
    let refused = app.start().await.unwrap_err().to_string();
    assert!(
        refused.contains("route `create` of `Ban`")
            && refused.contains("compares the caller with `user_id`"),
        "{refused}"
    );
}
