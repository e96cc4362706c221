//! Servers that the engine cannot use, and what it says about them.

use linchpin_realtime::engine::EngineError;

use super::*;
use crate::nats_server::with_settings;

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
async fn a_server_that_cannot_be_used_is_named_without_secrets() {
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
}

#[tokio::test]
async fn a_stream_with_other_settings_is_refused_and_other_limits_are_not() {
    let nats = bed();
    let options = NatsEngineOptions::new(format!("nats://127.0.0.1:{}", nats.port));
    let settings = json!({ "name": STREAMS[0], "subjects": ["linchpin.frames.>"] });
    nats.ask(&format!("CREATE.{}", STREAMS[0]), settings).await;
    let error = refused(&options).await;
    let text = error.to_string();
    assert!(
        text.contains("`linchpin_frames` has another `") && !error.is_unavailable(),
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

#[tokio::test]
async fn a_missing_permission_is_told_apart_from_a_server_that_is_down() {
    const LIMITED: &str = "jetstream { store_dir: 'store' }
        authorization { users = [{ user: app, password: 'secret', permissions: {
            publish: ['$JS.API.>', 'other.>'], subscribe: '>' } }] }";
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
