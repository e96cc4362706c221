//! Tests of servers that the engine cannot use, and of the reported errors.

use linchpin_realtime::engine::EngineError;

use super::*;
use crate::nats_double::server_with_version;
use crate::nats_server::with_settings;

/// Returns settings of a server with one user, and with the permissions of this user.
macro_rules! user {
    ($publish:literal, $subscribe:literal) => {
        concat!(
            "jetstream { store_dir: 'store' }\n",
            "authorization { users = [{ user: app, password: 'secret', permissions: { publish: [",
            $publish,
            "], subscribe: [",
            $subscribe,
            "] } }] }"
        )
    };
}

async fn refused(options: &NatsEngineOptions) -> EngineError {
    match NatsEngine::new(options, TestClock::default().clock()) {
        Ok(engine) => {
            assert!(!format!("{engine:?}").contains("secret"));
            engine.start().await.unwrap_err()
        }
        Err(error) => error,
    }
}

#[tokio::test]
async fn the_error_for_an_unusable_server_contains_no_secret() {
    const PASSWORD: &str =
        "jetstream { store_dir: 'store' }\nauthorization { user: app, password: 'rig ht' }";
    const TOKEN: &str = "jetstream { store_dir: 'store' }\nauthorization { token: 'right' }";
    let (plain, small) = (
        with_settings(""),
        with_settings("max_payload: 1000\njetstream {}"),
    );
    let (password, token) = (with_settings(PASSWORD), with_settings(TOKEN));
    let url = |nats: &Nats, user: &str| format!("nats://{user}127.0.0.1:{}", nats.port);
    for (url, unavailable, expected) in [
        (
            url(&plain, ""),
            false,
            "the NATS server has no JetStream: start it with",
        ),
        (url(&small, ""), false, "raise `max_payload` of the server"),
        (
            url(&password, ""),
            false,
            "refuses the credentials of the URL",
        ),
        (
            url(&password, "app:secret@"),
            false,
            "refuses the credentials of the URL",
        ),
        (
            url(&token, "secret@"),
            false,
            "refuses the credentials of the URL",
        ),
        (
            "nats://app:secret@127.0.0.1:1".to_owned(),
            true,
            "unavailable",
        ),
        (
            "http://app:secret@127.0.0.1".to_owned(),
            false,
            "a NATS URL is not valid",
        ),
        (
            "nats://app:secret@:x".to_owned(),
            false,
            "a NATS URL is not valid",
        ),
        (
            "wss://app:secret@localhost".to_owned(),
            false,
            "a NATS URL is not valid",
        ),
    ] {
        let options = NatsEngineOptions::new(url);
        let error = refused(&options).await;
        let text = format!("{error} {error:?} {options:?}");
        assert_eq!(error.is_unavailable(), unavailable, "{text}");
        assert!(
            text.contains(expected) && !text.contains("secret"),
            "{text}"
        );
    }
    for right in [url(&password, "app:rig%20ht@"), url(&token, "right@")] {
        let clock = TestClock::default().clock();
        let engine = NatsEngine::new(&NatsEngineOptions::new(right), clock).unwrap();
        engine.start().await.unwrap();
        engine.ready().await.unwrap();
    }
    let wrong = NatsEngineOptions {
        prefix: "my.app".to_owned(),
        ..NatsEngineOptions::new(url(&plain, ""))
    };
    assert!(refused(&wrong).await.to_string().contains("`my.app`"));
    let none = NatsEngineOptions {
        urls: Vec::new(),
        ..NatsEngineOptions::new("")
    };
    assert!(refused(&none).await.to_string().contains("at least one"));
    let mixed = NatsEngineOptions {
        urls: ["tls://app:secret@127.0.0.1:1", "nats://127.0.0.1:2"]
            .map(String::from)
            .into(),
        ..NatsEngineOptions::new("")
    };
    let text = refused(&mixed).await.to_string();
    assert!(
        text.contains("all with `tls://`") && !text.contains("secret"),
        "{text}"
    );
}

#[tokio::test]
async fn a_stream_with_other_settings_is_refused_but_other_limits_are_accepted() {
    let nats = single();
    let options = NatsEngineOptions::new(format!("nats://127.0.0.1:{}", nats.port));
    let settings = json!({ "name": STREAMS[0], "subjects": ["linchpin.frames.>"] });
    nats.ask(&format!("CREATE.{}", STREAMS[0]), settings).await;
    let error = refused(&options).await;
    let text = error.to_string();
    assert!(
        text.contains("of the JetStream stream `linchpin_frames` differs")
            && !error.is_unavailable(),
        "{text}"
    );
    nats.ask(&format!("DELETE.{}", STREAMS[0]), json!({})).await;
    nats.node(TestClock::default().clock()).await;
    let found = nats.ask(&format!("INFO.{}", STREAMS[0]), json!({})).await;
    let mut settings = found["config"].clone();
    settings["max_bytes"] = (1 << 30).into();
    let changed = nats.ask(&format!("UPDATE.{}", STREAMS[0]), settings).await;
    assert_eq!(changed["error"], Value::Null);
    nats.node(TestClock::default().clock()).await;
}

/// Some versions of NATS lose all messages at their next start if a message has exactly the
/// configured `first_seq`, so each node skips this number. Here another node created the stream and
/// stopped before it skipped the number.
#[tokio::test]
async fn the_configured_first_sequence_number_is_never_used() {
    let nats = single();
    nats.node(TestClock::default().clock()).await;
    let info = format!("INFO.{}", STREAMS[0]);
    let mut settings = nats.ask(&info, json!({})).await["config"].clone();
    settings["first_seq"] = 1000.into();
    let stream_request = |request: &str| format!("{request}.{}", STREAMS[0]);
    nats.ask(&stream_request("PURGE"), json!({})).await;
    nats.ask(&stream_request("DELETE"), json!({})).await;
    let created = nats.ask(&stream_request("CREATE"), settings).await;
    assert_eq!(created["error"], Value::Null);
    // Both nodes skip the number. When the second node starts, it does not remove the message of
    // the first.
    let stream = Stream::new("tasks:1:live", History::default());
    for event in ["1", "2"] {
        let engine = nats.node(TestClock::default().clock()).await;
        engine
            .append(&[append(&stream, event, None)])
            .await
            .unwrap();
    }
    let state = nats.ask(&info, json!({})).await["state"].clone();
    assert_eq!(
        (&state["first_seq"], &state["messages"]),
        (&json!(1001), &json!(2))
    );
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    for version in ["2.9.10", "2.9.99", "1.4.1"] {
        let port = server_with_version(version).await;
        let error = refused(&NatsEngineOptions::new(format!("nats://127.0.0.1:{port}"))).await;
        let expected = format!("the server is NATS {version}, and the engine needs 2.10 or newer");
        assert!(
            error.to_string().contains(&expected) && !error.is_unavailable(),
            "{error}"
        );
    }
}

/// Each case lacks one permission.
#[tokio::test]
async fn the_start_up_error_names_the_missing_permission() {
    for (settings, expected) in [
        (
            user!("'linchpin.>'", "'linchpin.>', '_INBOX.>'"),
            "publish to \"$js.api.stream.create.linchpin_frames\"",
        ),
        (
            user!(
                "'$JS.API.>', 'linchpin.control.>', 'linchpin.live.>', 'linchpin.users.>'",
                "'linchpin.>', '_INBOX.>'"
            ),
            "publish to \"linchpin.frames.start:",
        ),
        (
            user!(
                "'$JS.API.>', 'linchpin.control.>', 'linchpin.live.>', 'linchpin.frames.>'",
                "'linchpin.>', '_INBOX.>'"
            ),
            "publish to \"linchpin.users.start:",
        ),
        (
            user!(
                "'$JS.API.>', 'linchpin.frames.>', 'linchpin.live.>', 'linchpin.users.>'",
                "'linchpin.>', '_INBOX.>'"
            ),
            "publish to \"linchpin.control.",
        ),
        (
            user!("'$JS.API.>', 'linchpin.>'", "'linchpin.live.>', '_INBOX.>'"),
            "subscription to \"linchpin.control.*\"",
        ),
        (
            user!(
                "'$JS.API.>', 'linchpin.>'",
                "'linchpin.control.>', '_INBOX.>'"
            ),
            "subscription to \"linchpin.live.start:",
        ),
        (
            user!("'$JS.API.>', 'linchpin.>'", "'linchpin.>'"),
            "subscription to \"_inbox.",
        ),
    ] {
        let nats = with_settings(settings);
        let url = format!("nats://app:secret@127.0.0.1:{}", nats.port);
        let error = refused(&NatsEngineOptions::new(url)).await;
        let text = error.to_string().to_lowercase();
        assert!(
            !error.is_unavailable() && text.contains(expected) && !text.contains("secret"),
            "{text}"
        );
    }
    // No other permission is needed.
    let nats = with_settings(user!(
        "'$JS.API.>', 'linchpin.>'",
        "'linchpin.>', '_INBOX.>'"
    ));
    let url = format!("nats://app:secret@127.0.0.1:{}", nats.port);
    let clock = TestClock::default().clock();
    let engine = NatsEngine::new(&NatsEngineOptions::new(url), clock).unwrap();
    engine.start().await.unwrap();
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = engine.subscribe(&stream).await.unwrap();
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
    engine.presence_enter(&stream, &["ada"]).await.unwrap();
    engine.renew().await.unwrap();
}

#[tokio::test]
async fn a_missing_permission_is_not_reported_as_unavailable() {
    const LIMITED: &str = "jetstream { store_dir: 'store' }
        authorization { users = [{ user: app, password: 'secret', permissions: {
            publish: { allow: '>', deny: 'linchpin.frames.tasks:1:live' } } }] }";
    let nats = with_settings(LIMITED);
    let url = format!("nats://app:secret@127.0.0.1:{}", nats.port);
    let clock = TestClock::default().clock();
    let engine = NatsEngine::new(&NatsEngineOptions::new(url), clock).unwrap();
    engine.start().await.unwrap();
    let stream = Stream::new("tasks:1:live", History::default());
    let error = engine
        .append(&[append(&stream, "1", None)])
        .await
        .unwrap_err();
    let text = error.to_string().to_lowercase();
    assert!(
        !error.is_unavailable() && text.contains("permissions violation"),
        "{text}"
    );
}
