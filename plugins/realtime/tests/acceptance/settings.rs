//! Tests of configuration errors that prevent the start.

use linchpin::prelude::*;
use linchpin::{App, Config};
use linchpin_realtime::channel::Declared;
use linchpin_realtime::{Endpoint, EngineChoice, Realtime, RealtimeConfig, channel, sse};

use crate::test_app::{self, Container, Thread};

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[channel(of = Notice, name = "live", endpoint = "/__notices")]
pub enum NoticeLive {
    #[on(Notice::updated)]
    Notice(Notice),
}

#[channel(of = Container, name = "live")]
pub enum Twice {
    #[on(Container::updated)]
    Container(Container),
}

/// The gate of a thread refers to its container. The room belongs to another record: the thread.
#[channel(of = Thread, name = "live")]
pub enum ThreadLive {
    #[on(Thread::updated)]
    Thread(Thread),
}

sse! {
    pub const NOTICES = "/__sse/notices";
    Notice: [created],
    auth = none,
}

static NOTICES_PACKAGE: Package = package!(name = "notices", entities = [entity(Notice)]);

/// Returns the error message of an app that cannot start.
async fn refused(plugin: Realtime) -> String {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("x".repeat(32));
    let started = App::new(config)
        .plugin(JwtAuth::new())
        .plugin(plugin)
        .package(&NOTICES_PACKAGE)
        .start()
        .await;
    text(&started.expect_err("a start-up error"))
}

fn text(error: &Error) -> String {
    let startup = error.startup().map(ToString::to_string);
    startup.unwrap_or_else(|| format!("{error:?}"))
}

#[tokio::test]
async fn a_channel_with_events_of_another_gate_is_a_start_up_error() {
    let message = refused(Realtime::new(Declared::default().channel::<ThreadLive>())).await;
    let part = "forwards events of its own entity `Thread`, but the gate `container_id -> \
                Container` of this entity leads to a record other than the room's: declare a \
                channel of `Container`, and forward the events there with `by = container_id`";
    assert!(message.contains(part), "{message}");
}

#[tokio::test]
async fn all_configuration_problems_are_reported_together() {
    let declared = Declared::default().channel::<NoticeLive>().sse(NOTICES);
    let plugin = Realtime::new(declared)
        .endpoint(Endpoint::new("/__sse/notices"))
        .endpoint(Endpoint::new("rooms"))
        .configure(|config| {
            config.cluster = true;
            config.limits.rooms = 0;
        });
    let message = refused(plugin).await;
    for part in [
        "plugin `realtime` cannot start: 5 problems",
        "realtime.limits.rooms: must be 1 to 1000, not 0",
        "`rooms` must be a path of static segments",
        "channel `NoticeLive`",
        "uses `/__notices`, which is not a WebSocket endpoint",
        "WebSocket endpoint `/__sse/notices` and SSE endpoint `NOTICES`",
        "several nodes need an engine that they share, and `realtime.engine` is `memory`",
    ] {
        assert!(message.contains(part), "{part}\n---\n{message}");
    }
}

#[tokio::test]
async fn an_endpoint_and_a_route_cannot_share_a_path() {
    let message =
        refused(Realtime::new(Declared::default()).endpoint(Endpoint::new("/notices"))).await;
    let part = "/notices` and WebSocket endpoint `/notices` share the path `/notices`";
    assert!(message.contains(part), "{message}");
}

#[tokio::test]
async fn a_channel_of_an_entity_outside_the_app_is_refused() {
    let message = refused(Realtime::new(test_app::declared())).await;
    assert!(
        message.contains("uses entity `Container`, but no package of the app lists it"),
        "{message}"
    );
    let message = refused(Realtime::new(
        Declared::default()
            .channel::<Twice>()
            .channel::<test_app::ContainerLive>(),
    ))
    .await;
    assert!(message.contains("have the same name `live`"), "{message}");
}

#[tokio::test]
async fn an_endpoint_for_users_needs_an_authentication_plugin() {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("x".repeat(32));
    let started = App::new(config)
        .plugin(Realtime::new(Declared::default()))
        .package(&NOTICES_PACKAGE)
        .start()
        .await;
    let message = text(&started.expect_err("a start-up error"));
    let cause = "plugin `realtime` cannot start: realtime.endpoints: endpoint `/__ws` requires authenticated callers";
    assert!(message.contains(cause), "{message}");
}

#[tokio::test]
async fn an_unreachable_engine_prevents_the_start() {
    let unreachable_server =
        linchpin_realtime::engine::RedisEngineOptions::new("redis://127.0.0.1:1");
    let plugin = Realtime::new(Declared::default()).engine(EngineChoice::Redis(unreachable_server));
    let message = refused(plugin).await;
    assert!(
        message.contains("plugin `realtime` cannot start"),
        "{message}"
    );
}

#[tokio::test]
async fn wrong_variables_are_reported() {
    let variable =
        |name: &str, value: &str| (format!("LINCHPIN_REALTIME_{name}"), value.to_owned());
    let config =
        RealtimeConfig::from_vars([variable("DRAIN_SECOND", "5"), variable("CLUSTER", "yes")]);
    let message = refused(Realtime::new(Declared::default()).config(config)).await;
    assert!(
        message.contains("LINCHPIN_REALTIME_CLUSTER: must be `true` or `false`"),
        "{message}"
    );
    assert!(
        message.contains("LINCHPIN_REALTIME_DRAIN_SECOND: is not a setting; did you mean"),
        "{message}"
    );
}
