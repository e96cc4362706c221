//! Start-up errors, which are reported before a port is opened, and their messages.

use linchpin::http::RouteAuth;
use linchpin::{App, BoxFuture, Error, JwtAuth, MiddlewareCx, Package, Plugin, PostCx, Result};

use crate::fixture::{
    Diary, NOTES, Recorder, Routes, SECRETS, TWIN, TWINS, config, notes, refused,
};

#[tokio::test]
async fn names_are_unique_and_dependencies_present() {
    let diary = Diary::default();
    let app = notes()
        .package(&NOTES)
        .plugin(Recorder::new("mail", &["qeue"], &diary))
        .plugin(Recorder::new("queue", &[], &diary))
        .plugin(Recorder::new("mail", &[], &diary));
    let text = refused(app.start().await);
    for part in [
        "two plugins or packages are named `mail`",
        "two plugins or packages are named `notes`",
        "`mail` depends on `qeue`, which is neither a plugin nor a package of this app; did you mean `queue`?",
        "entity `Note` is in package `notes` and again in package `notes`",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(diary.read(), "", "no method of a plugin was called");
}

#[tokio::test]
async fn dependency_cycles_are_refused() {
    let diary = Diary::default();
    let app = App::new(config())
        .plugin(Recorder::new("a", &["b"], &diary))
        .plugin(Recorder::new("b", &["a"], &diary));
    assert_eq!(
        refused(app.start().await),
        "plugins depend on each other in a cycle: `a`, `b`"
    );
}

#[tokio::test]
async fn routes_across_packages_are_compared() {
    let text = refused(notes().package(&TWINS).start().await);
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        assert!(
            text.contains(&format!("duplicate route {method} /notes")),
            "{method} in {text}"
        );
    }
    assert!(
        text.contains("src/note.rs:3") && text.contains("src/twin.rs:9"),
        "{text}"
    );
    // Another package may mount the same entity below another path.
    static ELSEWHERE: Package = Package {
        version: "1.2.3",
        name: "elsewhere",
        mount: "/v2",
        entities: &[linchpin::EntityEntry {
            desc: &TWIN,
            operations: &[],
            routes: &[],
        }],
        dependencies: &["notes"],
        middleware: &[],
        after_adapters: None,
    };
    notes()
        .package(&ELSEWHERE)
        .start()
        .await
        .unwrap()
        .stop()
        .await
        .unwrap();
}

#[tokio::test]
async fn closed_routes_need_an_auth_plugin() {
    let text = refused(App::new(config()).package(&SECRETS).start().await);
    let line = text
        .lines()
        .find(|line| line.contains("route `list` of `Secret` (src/note.rs:3)"))
        .unwrap_or_default();
    assert!(
        line.ends_with(": needs auth `userAuth`, but no plugin registers it")
            && text.matches("userAuth").count() == 1,
        "{text}"
    );
    assert!(
        text.contains(
            "help: correct the name, or add the plugin that registers it: `linchpin_auth::Auth`"
        ),
        "{text}"
    );
    App::new(config())
        .package(&SECRETS)
        .plugin(JwtAuth::new())
        .start()
        .await
        .unwrap()
        .stop()
        .await
        .unwrap();
}

struct SecondAuth;

impl Plugin for SecondAuth {
    fn name(&self) -> &'static str {
        "second-auth"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

struct Nosy;

impl Plugin for Nosy {
    fn name(&self) -> &'static str {
        "nosy"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(std::sync::Arc::new(crate::plugins::ByHeader)) })
    }
}

#[tokio::test]
async fn two_auth_plugins_are_refused() {
    let text = refused(
        notes()
            .plugin(JwtAuth::new())
            .plugin(SecondAuth)
            .start()
            .await,
    );
    assert_eq!(
        text,
        "plugin `second-auth` cannot start: two plugins register route auth; keep one"
    );
    let text = refused(notes().plugin(JwtAuth::new()).plugin(Nosy).start().await);
    assert_eq!(
        text,
        "plugin `nosy` cannot start: two plugins install an actor resolver; keep one"
    );
}

#[tokio::test]
async fn routes_of_plugins_that_cannot_be_mounted_are_listed() {
    let app = notes().plugin(Routes(|cx: &mut linchpin::RoutesCx| {
        cx.route("/health/live", axum::routing::get(|| async { "mine" }));
        cx.route("no-slash", axum::routing::get(|| async { "" }));
    }));
    let text = refused(app.start().await);
    assert!(
        text.contains("no-slash cannot be mounted: ")
            && text.contains("/health/live cannot be mounted: "),
        "{text}"
    );
}

#[tokio::test]
async fn a_hook_that_fails_stops_start_up() {
    let text = refused(
        notes()
            .after_adapters(|_| async { Err(Error::internal("no seed")) })
            .start()
            .await,
    );
    assert_eq!(text, "an after_adapters hook failed: no seed");
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let first = notes().start().await.unwrap();
    let port = first.address().port();
    let text = refused(App::new(config().port(port)).start().await);
    assert!(
        text.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")),
        "{text}"
    );
    first.stop().await.unwrap();
}

#[tokio::test]
async fn mistakes_of_code_in_the_config_are_reported_together() {
    let config = config()
        .signing_secret("short")
        .database("mysql://u:hunter2@h/d");
    let text = refused(App::new(config).start().await);
    assert!(
        text.contains("security.signing.secret: must be at least 32 bytes, has 5"),
        "{text}"
    );
    assert!(
        text.contains("stores.default") && !text.contains("hunter2"),
        "{text}"
    );
}

#[tokio::test]
async fn an_unreachable_route_of_a_plugin_is_refused() {
    let app = notes().plugin(Routes(|cx: &mut linchpin::RoutesCx| {
        cx.route("/notes/{slug}", axum::routing::get(|| async { "mine" }));
        cx.route("/notes/of/{slug}", axum::routing::get(|| async { "fine" }));
    }));
    let text = refused(app.start().await);
    assert!(text.starts_with("duplicate route /notes/{slug}: a plugin's route and GET /notes/{id} of Note (src/note.rs:3)"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[tokio::test]
async fn mistakes_of_the_configuration_are_reported_together() {
    let config = linchpin::Config::from_vars([
        ("LINCHPIN_PORT".to_owned(), "x".to_owned()),
        ("LINCHPIN_PROT".to_owned(), "1".to_owned()),
    ]);
    let config = config
        .unwrap()
        .signing_secret("short")
        .cors(["*", "https://a.example/"], true);
    let error = App::new(config).package(&NOTES).start().await.unwrap_err();
    let found: Vec<_> = error.details().iter().map(|p| p.path.as_str()).collect();
    let origins = "security.cors.origins";
    assert_eq!(
        found,
        [
            "LINCHPIN_PORT",
            "LINCHPIN_PROT",
            "security.signing.secret",
            origins,
            origins
        ]
    );
}

linchpin::context! {
    locale: String;
    level: i64;
}

/// Represents another crate: the same name with another type.
mod elsewhere {
    linchpin::context! {
        pub level: bool;
    }
}

#[linchpin::entity(scope(region = ctx(locale)))]
#[derive(Clone, Debug)]
pub struct Poster {
    #[field(primary)]
    pub id: String,
    pub region: String,
    #[field(default = ctx(level))]
    pub level: i64,
    #[field(default = 0)]
    pub raised: i64,
}

#[linchpin::operation(kind = "increment", field = raised, match(id = param(id), region = ctx(locale)))]
pub const RAISE: linchpin::Operation<Poster>;

static POSTERS: Package =
    linchpin::package!(name = "posters", entities = [entity(Poster, [RAISE])]);

struct Context(fn(&mut MiddlewareCx) -> Result<()>);

impl Plugin for Context {
    fn name(&self) -> &'static str {
        "context"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { (self.0)(cx) })
    }
}

/// Each context value that a declaration reads needs a provider. The provider must have the type
/// with which the declaration was checked.
#[tokio::test]
async fn context_values_in_declarations_need_a_provider() {
    let app = || App::new(config()).package(&POSTERS).plugin(JwtAuth::new());
    let text = refused(app().start().await);
    for part in [
        "scope `region` of `Poster` (",
        "reads `ctx(locale)`, but no plugin provides it\n",
        "field `level` of `Poster` (",
        "operation `raise` of `Poster` (",
        "help: `cx.provide(name, ..)` in the `setup_middleware` of a plugin",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let text = refused(
        app()
            .plugin(Context(|cx| {
                cx.provide(locale, |_| Ok(None))?;
                cx.provide(elsewhere::level, |_| Ok(None))
            }))
            .start()
            .await,
    );
    assert!(
        text.contains("reads `ctx(level)` as integer, but a plugin provides it as boolean")
            && !text.contains("locale"),
        "{text}"
    );
    let text = refused(
        app()
            .plugin(Context(|cx| {
                cx.provide(level, |_| Ok(None))?;
                cx.provide(level, |_| Ok(None))
            }))
            .start()
            .await,
    );
    assert!(
        text.contains("two plugins provide `ctx(level)`; keep one"),
        "{text}"
    );
    let complete = Context(|cx| {
        cx.provide(level, |_| Ok(None))?;
        cx.provide(locale, |_| Ok(None))
    });
    app()
        .plugin(complete)
        .start()
        .await
        .unwrap()
        .stop()
        .await
        .unwrap();
}
