//! Guards, middleware, named auth and roles of an enum: the checks before a route runs.

#![allow(missing_docs)] // test entities

use axum::http::HeaderValue;
use axum::response::Response;
use linchpin::http::{GuardArg, GuardInput, Middleware, NamedCheck};
use linchpin::prelude::*;
use linchpin::{BoxFuture, Code, Plugin, PostCx, Result};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{SECRET, Server};
use crate::tenancy::{call, id, made};

/// The roles of the app.
#[derive(Clone, Copy, Roles)]
pub enum Role {
    Admin,
    #[role(rename = "chief-editor")]
    ChiefEditor,
}

/// Records the order of the middleware, and the caller that it sees.
async fn outer(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    let seen = format!(
        "{} {} as {}",
        call.name,
        call.path,
        call.actor()
            .and_then(|a| a.id.clone())
            .unwrap_or("nobody".to_owned())
    );
    let mut response = next.await?;
    response
        .headers_mut()
        .append("x-seen", HeaderValue::try_from(seen).unwrap());
    response
        .headers_mut()
        .append("x-order", HeaderValue::from_static("outer"));
    Ok(response)
}

mod inner {
    use super::*;

    /// Refuses the call, sends its own response, or continues.
    pub async fn gate(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
        match call
            .parts
            .headers
            .get("x-wish")
            .and_then(|v| v.to_str().ok())
        {
            Some("refuse") => Err(Error::new(Code::Other(403, "not_today"), "Not today")),
            Some("answer") => Ok(Response::new("answered".into())),
            Some("panic") => panic!("a middleware of a user"),
            // The middleware sees errors of the rest of the pipeline.
            Some("soften") => match next.await {
                Err(error) if error.code() == Code::NotFound => Ok(Response::new("none".into())),
                other => other,
            },
            _ => {
                let mut response = next.await?;
                response
                    .headers_mut()
                    .append("x-order", HeaderValue::from_static("inner"));
                Ok(response)
            }
        }
    }
}

#[entity(
    unique(slug),
    sort = asc(slug),
    routes(
        auth = none,
        create(auth = "bearer"),
        update(auth = "userAuth", guards(require_mfa, require_step_up(300), require_plan("pro"))),
        delete(auth = "userAuth", roles = [Role::Admin, Role::ChiefEditor], middleware = [outer]),
        get(middleware = [outer, inner::gate, "counted"]),
    )
)]
#[derive(Clone, Debug)]
pub struct Door {
    #[field(primary)]
    pub id: String,
    pub slug: String,
}

#[operation(kind = "field_update", set(slug), route(auth = "userAuth", guards(require_mfa), middleware = ["counted"]))]
pub const RENAME: Operation<Door>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(auth = "userAuth", roles = [crate::guards::Role::Admin]))]
pub const BY_SLUG: Operation<Door>;

/// A function with a middleware.
#[route(entity = Door, method = "POST", path = "knock", middleware = [outer], auth = "partner")]
async fn knock(body: String) -> String {
    format!("{body}!")
}

static DOORS: Package = package!(
    name = "gates",
    entities = [entity(Door, [RENAME, BY_SLUG, knock])]
);

cases!(&crate::guards::DOORS, crate::guards::keeper =>
    guards_run_in_order, middleware_wraps_the_handler_in_order, named_auth_admits_its_callers,
    roles_may_be_variants_of_an_enum, missing_names_are_start_up_errors,
    the_document_lists_guards_roles_and_auth,
);

fn keeper(app: App) -> App {
    app.plugin(Keeper)
}

/// Registers the names in policies, by the roles of the actor.
struct Keeper;

impl Plugin for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let needs = |role: &'static str, code: &'static str| {
                NamedCheck::actor(move |actor| match actor.id {
                    None => Err(Error::unauthorized()),
                    Some(_) if actor.has_any_role(&[role]) => Ok(()),
                    Some(_) => Err(Error::new(Code::Other(403, code), "You lack something")),
                })
            };
            let registrar = cx.registrar();
            registrar.roles(Role::NAMES.iter().copied());
            registrar.named("bearer", needs("service", "not_a_service"))?;
            registrar.named("partner", needs("partner", "not_a_partner"))?;
            registrar.named("require_mfa", needs("mfa", "mfa_required"))?;
            registrar.named("require_step_up", NamedCheck::guard(stepped_up))?;
            registrar.named(
                "require_plan",
                NamedCheck::guard(|call| match call.argument {
                    Some(GuardArg::Text(plan)) if call.actor.has_any_role(&[plan]) => Ok(()),
                    _ => Err(Error::new(
                        Code::Other(403, "plan_required"),
                        "Not in your plan",
                    )),
                }),
            )?;
            registrar.middleware(
                "counted",
                Middleware::new(|call, next| Box::pin(counted(call, next))),
            )?;
            let twice = registrar
                .named("require_mfa", needs("mfa", "mfa_required"))
                .unwrap_err();
            assert!(
                format!("{twice:?}").contains("two plugins register `require_mfa`"),
                "{twice:?}"
            );
            Ok(())
        })
    }
}

async fn counted(_: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    let mut response = next.await?;
    response
        .headers_mut()
        .append("x-order", HeaderValue::from_static("counted"));
    Ok(response)
}

/// The role `stepped-1772600767` contains the instant of the step-up.
fn stepped_up(call: &GuardInput<'_>) -> Result<()> {
    let at = call
        .actor
        .roles
        .iter()
        .find_map(|role| role.strip_prefix("stepped-")?.parse::<i64>().ok());
    match (at, call.argument) {
        (Some(at), Some(GuardArg::Int(seconds))) if call.now.millis() / 1000 - at <= seconds => {
            Ok(())
        }
        _ => Err(Error::new(
            Code::Other(403, "step_up_required"),
            "Confirm that it is you",
        )),
    }
}

async fn create_door(s: &Server, name: &str) -> Json {
    made(
        s,
        &s.token("robot", &["service"]),
        "/doors",
        json!({"id": name, "slug": name}),
    )
    .await
}

async fn guards_run_in_order(s: &Server) {
    let door = create_door(s, "front").await;
    let stepped = format!("stepped-{}", s.now().millis() / 1000);
    for (roles, expected) in [
        (&[][..], (403, "mfa_required")),
        (&["mfa"], (403, "step_up_required")),
        (&["mfa", "stepped-0"], (403, "step_up_required")),
        (&["mfa", &stepped], (403, "plan_required")),
        (&["mfa", &stepped, "free"], (403, "plan_required")),
    ] {
        // Refused before the body is read.
        let reply = s
            .raw(
                "PATCH",
                "/doors/none?x=1",
                &[("authorization", &s.token("ann", roles))],
                "{",
            )
            .await;
        assert_eq!(reply.code(), expected, "{roles:?}");
    }
    assert_eq!(
        s.raw("PATCH", "/doors/none?x=1", &[], "{").await.code(),
        (401, "unauthorized"),
        "after auth"
    );
    let token = s.token("ann", &["mfa", &stepped, "pro"]);
    let path = format!("/doors/{}", id(&door));
    assert_eq!(
        call(s, &token, "PATCH", &path, json!({"slug": "back"}))
            .await
            .json()["slug"],
        "back"
    );
    s.advance(301_000);
    assert_eq!(
        call(s, &token, "PATCH", &path, json!({"slug": "side"}))
            .await
            .code(),
        (403, "step_up_required")
    );
    assert_eq!(
        call(
            s,
            &s.token("ann", &[]),
            "PATCH",
            &format!("{path}/rename"),
            json!({"slug": "x"})
        )
        .await
        .code(),
        (403, "mfa_required")
    );
    let renamed = call(
        s,
        &s.token("ann", &["mfa"]),
        "PATCH",
        &format!("{path}/rename"),
        json!({"slug": "x"}),
    )
    .await;
    assert_eq!(
        (renamed.status, renamed.header("x-order").as_str()),
        (200, "counted")
    );
}

async fn middleware_wraps_the_handler_in_order(s: &Server) {
    create_door(s, "front").await;
    let order = |reply: &crate::server::Reply| -> Vec<String> {
        reply
            .headers
            .get_all("x-order")
            .iter()
            .map(|v| v.to_str().unwrap().to_owned())
            .collect()
    };
    let reply = s.get("/doors/front").await;
    assert_eq!(
        (reply.status, order(&reply)),
        (
            200,
            vec!["counted".to_owned(), "inner".to_owned(), "outer".to_owned()]
        )
    );
    assert_eq!(reply.header("x-seen"), "get /doors/{id} as nobody");
    let wish = |wish: &'static str, path: &'static str| async move {
        s.raw("GET", path, &[("x-wish", wish)], "").await
    };
    let refused = wish("refuse", "/doors/front").await;
    assert_eq!(
        (refused.code(), order(&refused)),
        ((403, "not_today"), vec![])
    );
    assert_eq!(refused.json()["requestId"], refused.header("x-request-id"));
    let answered = wish("answer", "/doors/front").await;
    assert_eq!(
        (&answered.body[..], order(&answered)),
        (&b"answered"[..], vec!["outer".to_owned()])
    );
    assert_eq!(&wish("soften", "/doors/none").await.body[..], b"none");
    assert_eq!(wish("soften", "/doors/front").await.json()["id"], "front");
    assert_eq!(
        wish("panic", "/doors/front").await.code(),
        (500, "internal")
    );
    assert_eq!(s.get("/doors/front").await.status, 200);
    assert_eq!(s.get("/doors/none").await.code(), (404, "not_found"));
    // HEAD is treated like GET.
    let head = s.raw("HEAD", "/doors/front", &[], "").await;
    assert_eq!(
        (head.status, head.body.len(), order(&head).len()),
        (200, 0, 3)
    );
    // A middleware runs after auth and roles.
    let reply = s
        .raw(
            "DELETE",
            "/doors/front",
            &[("authorization", &s.token("u", &[]))],
            "",
        )
        .await;
    assert_eq!(
        (reply.code(), reply.header("x-seen").as_str()),
        ((403, "forbidden"), "")
    );
    let reply = s
        .raw(
            "POST",
            "/doors/knock",
            &[("authorization", &s.token("u", &["partner"]))],
            "hello",
        )
        .await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"hello!"[..]));
    assert_eq!(reply.header("x-seen"), "knock /doors/knock as u");
}

async fn named_auth_admits_its_callers(s: &Server) {
    let create = |token: String| async move {
        call(s, &token, "POST", "/doors", json!({"id": "a", "slug": "a"})).await
    };
    assert_eq!(create(String::new()).await.code(), (401, "unauthorized"));
    assert_eq!(
        create(s.token("u", &[])).await.code(),
        (403, "not_a_service")
    );
    assert_eq!(create(s.token("robot", &["service"])).await.status, 201);
    assert_eq!(
        s.raw(
            "POST",
            "/doors/knock",
            &[("authorization", &s.token("u", &[]))],
            "x"
        )
        .await
        .code(),
        (403, "not_a_partner")
    );
}

async fn roles_may_be_variants_of_an_enum(s: &Server) {
    for name in ["a", "b"] {
        create_door(s, name).await;
    }
    assert_eq!(
        call(
            s,
            &s.token("u", &["chief_editor"]),
            "DELETE",
            "/doors/a",
            Json::Null
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(
            s,
            &s.token("u", &[Role::ChiefEditor.as_str()]),
            "DELETE",
            "/doors/a",
            Json::Null
        )
        .await
        .status,
        204
    );
    assert_eq!(
        call(
            s,
            &s.token("u", &["admin"]),
            "DELETE",
            "/doors/b",
            Json::Null
        )
        .await
        .status,
        204
    );
    assert_eq!(
        call(
            s,
            &s.token("u", &["chief-editor"]),
            "GET",
            "/doors/by-slug/a",
            Json::Null
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(
            s,
            &s.token("u", &["admin"]),
            "GET",
            "/doors/by-slug/a",
            Json::Null
        )
        .await
        .status,
        200
    );
    assert_eq!(Actor::user("u").with_roles([Role::Admin]).roles, ["admin"]);
}

async fn missing_names_are_start_up_errors(s: &Server) {
    let config = Config::new()
        .signing_secret(SECRET)
        .port(0)
        .database("memory:");
    let text = App::new(config.clone())
        .plugin(JwtAuth::new())
        .package(&DOORS)
        .start()
        .await
        .err()
        .unwrap()
        .to_string();
    for part in [
        "route `create` of `Door` (",
        "needs auth `bearer`, but no plugin registers it",
        "needs auth `partner`, but no plugin registers it",
        "needs guard `require_mfa`, but no plugin registers it",
        "needs guard `require_step_up`, but no plugin registers it",
        "needs guard `require_plan`, but no plugin registers it",
        "route `get` of `Door` (",
        "needs middleware `counted`, but no plugin registers it",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // Registers some names as a kind of check that does not fit the routes, and some names with a
    // spelling mistake.
    struct Confused;
    impl Plugin for Confused {
        fn name(&self) -> &'static str {
            "confused"
        }
        fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
            Box::pin(async {
                cx.registrar().roles(["admins"]);
                cx.registrar()
                    .named("bearer", NamedCheck::guard(|_| Ok(())))?;
                cx.registrar()
                    .named("partners", NamedCheck::actor(|_| Ok(())))?;
                cx.registrar()
                    .named("require_mfa", NamedCheck::actor(|_| Ok(())))?;
                cx.registrar()
                    .named("require_step_up", NamedCheck::actor(|_| Ok(())))?;
                cx.registrar()
                    .named("require_plan", NamedCheck::guard(|_| Ok(())))
            })
        }
    }
    let text = App::new(config.clone())
        .plugin(JwtAuth::new())
        .plugin(Confused)
        .package(&DOORS)
        .start()
        .await
        .err()
        .unwrap()
        .to_string();
    for part in [
        "needs auth `bearer`, which is a guard: write it in `guards(..)`",
        "needs auth `partner`, but no plugin registers it; did you mean `partners`?",
        "gives guard `require_step_up` an argument, and it takes none",
        "needs role `admin`, which no plugin declares; did you mean `admins`?",
        "needs role `chief-editor`, which no plugin declares",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(
        !text.contains("require_mfa") && !text.contains("require_plan"),
        "{text}"
    );
    assert_eq!(text.matches("needs role `admin`").count(), 1, "{text}");
    // Declares an empty list of roles, and the setting that adds one.
    struct Roleless;
    impl Plugin for Roleless {
        fn name(&self) -> &'static str {
            "roleless"
        }
        fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
            Box::pin(async {
                cx.registrar().roles_of("staff.roles", Vec::<String>::new());
                Ok(())
            })
        }
    }
    let text = App::new(config)
        .plugin(JwtAuth::new())
        .plugin(Roleless)
        .package(&DOORS)
        .start()
        .await
        .err()
        .unwrap()
        .to_string();
    for role in ["admin", "chief-editor"] {
        let part =
            format!("needs role `{role}`, which no plugin declares: list it in `staff.roles`\n");
        assert!(text.contains(&part), "{part} is not in\n{text}");
    }
    // Registers guards that refuse the declared arguments, and an auth check that refuses every
    // caller because its setting is missing.
    struct Strict;
    impl Plugin for Strict {
        fn name(&self) -> &'static str {
            "strict"
        }
        fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
            Box::pin(async {
                let any = || NamedCheck::guard(|_| Ok(()));
                cx.registrar().named(
                    "bearer",
                    NamedCheck::unset("which no caller could pass: set `programs`"),
                )?;
                cx.registrar()
                    .named("partner", NamedCheck::actor(|_| Ok(())))?;
                let argument_required =
                    |argument: Option<GuardArg>| argument.map(drop).ok_or_else(|| "one".to_owned());
                cx.registrar()
                    .named("require_mfa", any().taking(argument_required))?;
                let only_60_seconds = |argument| {
                    if argument == Some(GuardArg::Int(60)) {
                        Ok(())
                    } else {
                        Err("seconds up to 60".to_owned())
                    }
                };
                cx.registrar()
                    .named("require_step_up", any().taking(only_60_seconds))?;
                let only_free_plan = |argument| match argument {
                    Some(GuardArg::Text("free")) => Ok(()),
                    _ => Err("a plan: \"free\"".to_owned()),
                };
                cx.registrar()
                    .named("require_plan", any().taking(only_free_plan))?;
                cx.registrar().middleware(
                    "counted",
                    Middleware::new(|call, next| Box::pin(counted(call, next))),
                )
            })
        }
    }
    let app = App::new(
        Config::new()
            .signing_secret(SECRET)
            .port(0)
            .database("memory:"),
    )
    .plugin(JwtAuth::new())
    .plugin(Strict);
    let text = app.package(&DOORS).start().await.err().unwrap().to_string();
    for part in [
        "route `create` of `Door` (",
        "needs auth `bearer`, which no caller could pass: set `programs`",
        "uses guard `require_mfa` without an argument; it needs one",
        "gives guard `require_step_up` the argument 300, and it takes seconds up to 60",
        "gives guard `require_plan` the argument \"pro\", and it takes a plan: \"free\"",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("help: correct the name"), "{text}");
    assert_eq!(s.get("/health/ready").await.status, 200);
}

async fn the_document_lists_guards_roles_and_auth(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let update = &document["paths"]["/doors/{id}"]["patch"];
    assert_eq!(
        update["x-linchpin-guards"],
        json!([{"name": "require_mfa"}, {"name": "require_step_up", "argument": 300}, {"name": "require_plan", "argument": "pro"}])
    );
    assert!(update["responses"]["403"].is_object());
    let delete = &document["paths"]["/doors/{id}"]["delete"];
    assert_eq!(delete["x-linchpin-roles"], json!(["admin", "chief-editor"]));
    assert_eq!(
        document["paths"]["/doors"]["post"]["security"],
        json!([{"bearer": []}])
    );
}
