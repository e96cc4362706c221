//! Processes that share a directory: commands next to a server, and two servers.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

#[allow(dead_code)] // the other tests use the rest of it
mod support;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use linchpin::prelude::*;
use linchpin_search_tantivy::Tantivy;
use support::{Article, ArticleCreate, app, eventually, start, try_start};

/// Environment variables for the programs below: their directory and their task.
const FOLDER: &str = "LINCHPIN_TEST_SHARED_FOLDER";
const WORDS: &str = "LINCHPIN_TEST_SHARED_WORDS";

/// A command that runs this test program as another process of the app.
fn child_command(name: &str, folder: &Path, words: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env(FOLDER, folder)
        .env(WORDS, words);
    command
}

/// Runs a command of the app in another process.
async fn run(folder: &Path, words: &'static str) -> Output {
    let mut command = child_command("a_command", folder, words);
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn output_text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the program that other tests run"]
async fn a_command() {
    let (Ok(folder), Ok(words)) = (std::env::var(FOLDER), std::env::var(WORDS)) else {
        return;
    };
    let folder = Path::new(&folder);
    let app = app(folder, "test.db")
        .search_provider("tantivy", Tantivy::in_folder(folder.join("search")));
    // Writes a record, and prints the results of a search.
    let app = app.command(
        "write",
        "write <id> <word>: writes an article, and looks for others",
        |adapters, args| async move {
            let (articles, cx) = (adapters.get::<Article>()?, Cx::system("a command"));
            articles
                .create(
                    &cx,
                    ArticleCreate {
                        id: args[0].clone(),
                        title: args[1].clone(),
                        body: String::new(),
                    },
                )
                .await?;
            let found = articles
                .find(&cx, args[1].as_str(), PageArgs::default())
                .await?;
            Ok(format!(
                "found {:?}",
                found
                    .into_iter()
                    .map(|article| article.id)
                    .collect::<Vec<_>>()
            ))
        },
    );
    // Runs until it is stopped.
    let waits = folder.to_owned();
    let app = app.command("wait", "wait: waits for the file `end`", move |_, _| {
        let folder = waits.clone();
        async move {
            std::fs::write(folder.join("waits"), "").unwrap();
            while !folder.join("end").exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok("ended".to_owned())
        }
    });
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    app.run_with(&words).await.unwrap();
    std::process::exit(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the program that another test runs and kills"]
async fn a_server() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let _running = try_start(Path::new(&folder), "test.db").await.unwrap();
    println!("it serves");
    std::future::pending::<()>().await;
}

/// A server in another process; it is killed on drop.
struct Server(Child);

impl Server {
    fn start(folder: &Path) -> Self {
        use std::io::BufRead;
        let mut child = child_command("a_server", folder, "")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let serves = lines
            .map_while(Result::ok)
            .any(|line| line.contains("it serves"));
        assert!(serves, "the other server did not start");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_run_while_a_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    library.article("a", "lamp", "").await;
    eventually(async || library.find("lamp").await == ["a"]).await;
    // The command finds the records that the server has indexed, and the server finds the records
    // that the command has written.
    let output = run(folder.path(), "write b lamp").await;
    assert!(
        output.status.success() && output_text(&output).contains("found [\"a\"]"),
        "{}",
        output_text(&output)
    );
    eventually(async || library.find("lamp").await == ["a", "b"]).await;
    // Only the server can rebuild the index.
    let output = run(folder.path(), "search rebuild Article").await;
    let text = output_text(&output);
    assert!(
        !output.status.success()
            && text
                .contains("another process maintains the search index of `Article`: stop it first"),
        "{text}"
    );
    library.article("c", "lamp", "").await;
    eventually(async || library.find("lamp").await.len() == 3).await;
    library.stop().await;
    // Without a server, the command maintains the index while it runs. The index gets the record
    // of the command before the command ends, or after the next start.
    let output = run(folder.path(), "write d lamp").await;
    assert!(
        output.status.success() && output_text(&output).contains("found [\"a\", \"b\", \"c\""),
        "{}",
        output_text(&output)
    );
    let output = run(folder.path(), "search rebuild Article").await;
    assert!(
        output.status.success() && output_text(&output).contains("Article: 4 records indexed"),
        "{}",
        output_text(&output)
    );
    let library = start(folder.path()).await;
    eventually(async || library.find("lamp").await.len() == 4).await;
    library.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_returns_current_results_while_a_command_maintains_the_index() {
    for command_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let before = if command_first {
            None
        } else {
            Some(start(folder.path()).await)
        };
        let mut command = child_command("a_command", folder.path(), "wait")
            .spawn()
            .unwrap();
        eventually(async || folder.path().join("waits").exists()).await;
        if let Some(before) = before {
            before.article("a", "lamp", "").await;
            before.stop().await;
            // The command tries once a second to take over.
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        let library = start(folder.path()).await;
        let refused = library
            .running
            .adapters()
            .rebuild_search::<Article>()
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("another process maintains"), "{refused}");
        library.article("b", "lamp", "").await;
        let expected = if command_first {
            vec!["b"]
        } else {
            vec!["a", "b"]
        };
        eventually(async || library.find("lamp").await == expected).await;
        std::fs::write(folder.path().join("end"), "").unwrap();
        tokio::task::spawn_blocking(move || assert!(command.wait().unwrap().success()))
            .await
            .unwrap();
        // The command has ended, so the server takes over the index.
        library.article("c", "lamp", "").await;
        eventually(async || library.find("lamp").await.len() == expected.len() + 1).await;
        eventually(async || {
            library
                .running
                .adapters()
                .rebuild_search::<Article>()
                .await
                .is_ok()
        })
        .await;
        library.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_rebuilt_at_a_takeover_is_complete_before_searches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let first = tokio::task::spawn_blocking(move || Server::start(&path))
        .await
        .unwrap();
    let library = start(folder.path()).await;
    let (articles, cx) = (
        library.running.adapters().get::<Article>().unwrap(),
        Cx::system("a test"),
    );
    for n in 0..1_500 {
        let (id, title) = (
            format!("n{n:04}"),
            if n == 1_499 { "last lamp" } else { "chair" },
        );
        articles
            .create(
                &cx,
                ArticleCreate {
                    id,
                    title: title.to_owned(),
                    body: String::new(),
                },
            )
            .await
            .unwrap();
    }
    eventually(async || library.find("lamp").await == ["n1499"]).await;
    drop(first);
    std::fs::remove_dir_all(folder.path().join("search/articles.index")).unwrap();
    let began = Instant::now();
    // Until the rebuild is complete, a search returns an error or the complete result.
    while library
        .running
        .adapters()
        .rebuild_search::<Article>()
        .await
        .is_err()
    {
        let found = articles.find(&cx, "lamp", PageArgs::default()).await;
        assert!(
            found.is_err() || found.is_ok_and(|found| found.len() == 1),
            "a response without the last record"
        );
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Another process detects that the index belongs to this database.
    let third = try_start(folder.path(), "test.db").await.unwrap();
    assert_eq!(library.find("lamp").await, ["n1499"]);
    third.stop().await.unwrap();
    library.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_searches_the_index_of_the_first_and_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let first = tokio::task::spawn_blocking(move || Server::start(&path))
        .await
        .unwrap();
    let library = start(folder.path()).await;
    for n in 0..3 {
        library.article(&format!("n{n}"), "lamp", "").await;
    }
    eventually(async || library.find("lamp").await.len() == 3).await;
    let refused = library
        .running
        .adapters()
        .rebuild_search::<Article>()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("another process maintains the search index of `Article`"),
        "{refused}"
    );
    // The first server is killed. The changes that it has not indexed are not lost.
    drop(first);
    library.article("after", "lamp", "").await;
    let began = Instant::now();
    eventually(async || library.find("lamp").await.len() == 4).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        library
            .running
            .adapters()
            .rebuild_search::<Article>()
            .await
            .unwrap(),
        4
    );
    library.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_with_another_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    let error = try_start(folder.path(), "other.db")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("search provider `tantivy` cannot open the index of `Article`"),
        "{error}"
    );
    assert!(
        error.contains(
            "another process maintains it for another database; give each an index of its own"
        ),
        "{error}"
    );
    // The refused process has changed nothing.
    library.article("a", "still here", "").await;
    eventually(async || library.find("still").await == ["a"]).await;
    library.stop().await;
    try_start(folder.path(), "other.db")
        .await
        .unwrap()
        .stop()
        .await
        .unwrap();
}
