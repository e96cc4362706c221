//! The order in which plugins are set up and torn down, and the clean-up after a failing step.

use linchpin::App;

use crate::fixture::{Diary, NOTES, Recorder, config, refused};

const UP: &str =
    "b.middleware a.middleware c.middleware b.routes a.routes c.routes b.post a.post c.post";

fn app(diary: &Diary, fails: (&str, &'static str)) -> App {
    let recorder = |name: &'static str, needs| {
        let recorder = Recorder::new(name, needs, diary);
        if name == fails.0 {
            recorder.failing(fails.1)
        } else {
            recorder
        }
    };
    App::new(config())
        .package(&NOTES)
        .plugin(recorder("a", &["b", "notes"]))
        .plugin(recorder("b", &[]))
        .plugin(recorder("c", &[]))
}

#[tokio::test]
async fn plugins_start_after_their_dependencies_and_stop_in_reverse_order() {
    let diary = Diary::default();
    let running = app(&diary, ("", "")).start().await.unwrap();
    assert_eq!(diary.read(), UP);
    running.stop().await.unwrap();
    assert_eq!(diary.read(), "c.teardown a.teardown b.teardown");
}

#[tokio::test]
async fn a_failing_step_undoes_the_earlier_ones() {
    for (step, expected) in [
        (
            "middleware",
            "b.middleware a.middleware a.teardown b.teardown",
        ),
        (
            "routes",
            "b.middleware a.middleware c.middleware b.routes a.routes c.teardown a.teardown b.teardown",
        ),
        (
            "post",
            "b.middleware a.middleware c.middleware b.routes a.routes c.routes b.post a.post c.teardown a.teardown b.teardown",
        ),
    ] {
        let diary = Diary::default();
        let text = refused(app(&diary, ("a", step)).start().await);
        assert_eq!(text, "plugin `a` cannot start: it would not");
        assert_eq!(diary.read(), expected);
    }
}

#[tokio::test]
async fn a_failing_teardown_does_not_prevent_the_others() {
    let diary = Diary::default();
    let running = app(&diary, ("a", "teardown")).start().await.unwrap();
    diary.read();
    running.stop().await.unwrap();
    assert_eq!(diary.read(), "c.teardown a.teardown b.teardown");
}

#[tokio::test]
async fn hooks_run_before_plugins() {
    let diary = Diary::default();
    let hook = diary.clone();
    let app = app(&diary, ("", "")).after_adapters(move |_| async move {
        hook.note("hook");
        Ok(())
    });
    app.start().await.unwrap().stop().await.unwrap();
    assert!(diary.read().starts_with("hook b.middleware"));
}

#[tokio::test]
async fn a_taken_port_undoes_everything() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let diary = Diary::default();
    let config = config().port(taken.local_addr().unwrap().port());
    refused(
        App::new(config)
            .plugin(Recorder::new("a", &[], &diary))
            .start()
            .await,
    );
    assert_eq!(diary.read(), "a.middleware a.routes a.post a.teardown");
}
