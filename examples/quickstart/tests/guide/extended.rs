//! The snippets of the guide about overrides, permissions, middleware, plugins and hooks.

use std::sync::Arc;

use linchpin::axum::extract::Path;
use linchpin::axum::http::HeaderValue;
use linchpin::axum::http::request::Parts;
use linchpin::axum::response::Response;
use linchpin::axum::routing::get;
use linchpin::http::{ActorResolver, Inputs, Origin, OverrideCall, Resolution, RouteAuth};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::{
    AccessRequest, BoxFuture, Code, Decision, Evaluator, MiddlewareCx, Plugin, PostCx, Route,
    RoutesCx, Running, Value,
};

use super::{Article, ArticleCreate, PRESS, State, send_request};

/// A published article cannot be deleted.
async fn keep_published(call: OverrideCall) -> Result<Outcome> {
    let Inputs::Delete(Value::Text(id), version) = call.inputs else {
        return Err(Error::internal("not a delete"));
    };
    let articles = call.adapters.get::<Article>()?;
    if articles
        .get(&call.cx, &id)
        .await?
        .is_some_and(|article| article.state == State::Published)
    {
        return Err(Error::new(Code::Conflict, "A published article stays"));
    }
    articles.delete(&call.cx, id, version).await?;
    Ok(Outcome::Nothing)
}

/// A comment on an article.
#[entity(routes(
    get(auth = none),
    list(auth = none),
    create(permission(requires = "comment.write", owner_field = author_id), middleware = [polite]),
    update(permission(requires = "comment.edit", or = ["comment.moderate"], owner_field = author_id)),
    delete(permission(requires = "comment.moderate", owner_field = author_id, resource = article_id)),
))]
#[derive(Clone, Debug)]
pub struct Remark {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub article_id: String,
    pub author_id: String,
    #[field(length = 1..=2000)]
    pub text: String,
}

/// The package of remarks on articles.
pub static READERS: Package = package!(name = "readers", entities = [entity(Remark, [])]);

/// Moderators may do anything. A muted user may do nothing, not even with own records.
struct House;

impl Evaluator for House {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let decision = match request.actor {
            actor if actor.has_any_role(&["muted"]) => Decision::Deny,
            actor if actor.has_any_role(&["moderator"]) => Decision::Allow,
            _ => Decision::Abstain,
        };
        Box::pin(async { Ok(decision) })
    }
}

impl Plugin for House {
    fn name(&self) -> &str {
        "house"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_evaluator(House) })
    }
}

/// Refuses clients without a name, and adds the result to the response.
async fn polite(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    if !call.parts.headers.contains_key("user-agent") {
        return Err(Error::forbidden());
    }
    let mut response = next.await?;
    response
        .headers_mut()
        .insert("x-thanks", HeaderValue::from_static("for the remark"));
    Ok(response)
}

/// Greets callers, and prints a line at teardown.
struct Greeter;

impl Plugin for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.route(
                "/hello/{name}",
                get(|Path(name): Path<String>| async move { format!("Hello, {name}!") }),
            );
            Ok(())
        })
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            println!("goodbye");
            Ok(())
        })
    }
}

/// Authenticates callers by a header that the gateway in front of the app sets.
struct GatewayAuth;

impl ActorResolver for GatewayAuth {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let actor = match header("x-user") {
            Some(user) => Actor::user(user).with_roles(
                header("x-roles")
                    .into_iter()
                    .flat_map(|roles| roles.split(',')),
            ),
            None => Actor::anonymous(),
        };
        Resolution::Ready(Ok(Arc::new(actor)))
    }
}

impl Plugin for GatewayAuth {
    fn name(&self) -> &str {
        "gateway-auth"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(GatewayAuth)) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

async fn extended() -> Result<Running> {
    App::new(
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it"),
    )
    .package(&PRESS)
    .package(&READERS)
    .plugin(GatewayAuth)
    .plugin(Greeter)
    .plugin(House)
    .override_route::<Article, _, _>(Route::Delete, keep_published)
    .after_adapters(|adapters| async move {
        let articles = adapters.get::<Article>()?;
        let imprint = ArticleCreate {
            slug: "imprint".to_owned(),
            title: "Imprint".to_owned(),
            ..blank("the press")
        };
        let cx = Cx::system("seed");
        let imprint = articles.create(&cx, imprint).await?;
        articles.publish(&cx, imprint.id).await?;
        Ok(())
    })
    .start()
    .await
}

/// An article of an author, with all other values omitted.
fn blank(author: &str) -> ArticleCreate {
    ArticleCreate {
        slug: String::new(),
        title: String::new(),
        author_id: author.to_owned(),
        state: None,
        tags: None,
        links: None,
        remarks: None,
        published_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_the_extended_guide_app_are_served() {
    let app = extended().await.expect("the app starts");
    let (address, articles) = (
        app.address(),
        app.adapter::<Article>().expect("the adapter"),
    );
    let cx = Cx::actor(Actor::user("alice"));

    assert_eq!(
        send_request(address, "GET", "/articles/titles/the%20press?limit=5", ""),
        (200, "Imprint\n".to_owned())
    );
    assert_eq!(
        send_request(address, "GET", "/articles/titles/nobody", ""),
        (200, String::new())
    );
    assert_eq!(
        send_request(address, "GET", "/articles/titles/x?limit=x", "").0,
        400
    );
    assert_eq!(
        send_request(address, "GET", "/hello/you", ""),
        (200, "Hello, you!".to_owned())
    );

    let imprint = articles
        .by_slug(&cx, "imprint")
        .await
        .expect("read")
        .expect("the seed");
    let path = format!("/articles/{}", imprint.id);
    let editor = "x-user: alice\r\nx-roles: editor\r\nif-match: \"2\"\r\n";
    assert_eq!(send_request(address, "DELETE", &path, "").0, 401);
    assert_eq!(
        send_request(address, "DELETE", &path, "x-user: bob\r\n").0,
        403
    );
    let (status, body) = send_request(address, "DELETE", &path, editor);
    assert!(
        status == 409 && body.contains("A published article stays"),
        "{status} {body}"
    );
    let draft = ArticleCreate {
        slug: "draft".to_owned(),
        title: "Draft".to_owned(),
        ..blank("alice")
    };
    let draft = articles.create(&cx, draft).await.expect("created");
    let path = format!("/articles/{}", draft.id);
    assert_eq!(
        send_request(address, "DELETE", &path, editor).0,
        412,
        "the version still counts"
    );
    assert_eq!(
        send_request(address, "DELETE", &path, &editor.replace('2', "1")).0,
        204
    );

    let remark = |by: &str, agent: &str| {
        let body = r#"{"articleId":"a","authorId":"alice","text":"Well said"}"#;
        let length = body.len();
        let headers = format!(
            "x-user: {by}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{agent}"
        );
        send_request(address, "POST", "/remarks", &format!("{headers}\r\n{body}"))
    };
    assert_eq!(remark("alice", "").0, 403, "the middleware refuses");
    assert_eq!(
        remark("bob", "user-agent: test\r\n").0,
        403,
        "bob cannot write a remark of alice"
    );
    assert_eq!(
        remark("alice", "user-agent: test\r\nx-roles: muted\r\n").0,
        403
    );
    assert_eq!(remark("alice", "user-agent: test\r\n").0, 201);
    let page = app
        .adapter::<Remark>()
        .expect("the adapter")
        .list(&cx, ListQuery::new())
        .await
        .expect("listed");
    let path = format!("/remarks/{}", page.items[0].id);
    assert_eq!(
        send_request(address, "DELETE", &path, "x-user: bob\r\n").0,
        403
    );
    assert_eq!(
        send_request(
            address,
            "DELETE",
            &path,
            "x-user: alice\r\nx-roles: muted\r\n"
        )
        .0,
        403
    );
    assert_eq!(
        send_request(
            address,
            "DELETE",
            &path,
            "x-user: bob\r\nx-roles: moderator\r\n"
        )
        .0,
        204
    );
    app.stop().await.expect("it stops");
}
