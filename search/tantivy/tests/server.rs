//! Search over HTTP, with the index in a directory: matches, restarts, damage, and kills between
//! commit and indexing.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, stopping is the report

mod support;

use std::path::Path;

use linchpin::prelude::*;
use support::{Article, Library, Note, eventually, start, start_in_memory, try_start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_found_best_first() {
    let folder = tempfile::tempdir().unwrap();
    let l = start(folder.path()).await;
    l.article("a", "Crème brûlée", "A dessert with a hard top.")
        .await;
    l.article(
        "b",
        "Desserts of the world",
        "From crème to tiramisù, and back again.",
    )
    .await;
    l.article("c", "Hard rock", "Nothing sweet.").await;
    l.indexed("articles", 3).await;
    // Case and accents are ignored; a title has more weight than a body.
    assert_eq!(l.find("CREME").await, ["a", "b"]);
    assert_eq!(l.find("creme brulee").await, ["a"], "every word");
    assert_eq!(l.find("hard").await, ["c", "a"]);
    // The last word may be a prefix, the others not.
    assert_eq!(l.find("crème tirami").await, ["b"]);
    assert_eq!(l.find("dess").await.len(), 2);
    assert_eq!(l.find("dess hard").await, Vec::<String>::new());
    assert_eq!(
        l.find("rew").await,
        Vec::<String>::new(),
        "no beginning of a word"
    );
    // There is no query language.
    for q in [
        "title:hard",
        "hard AND NOT sweet",
        "\"hard rock",
        "sweet^9 OR hard",
        "[a TO z]",
        "/h.*/",
        "*",
        "+hard -rock",
        "((((",
    ] {
        let words = q.replace(|c: char| !c.is_alphanumeric(), " ");
        let plain = if words.trim().is_empty() {
            Vec::new()
        } else {
            l.find(&words).await
        };
        assert_eq!(l.find(q).await, plain, "{q}");
    }
    // The operation selects the fields to search.
    assert_eq!(l.ids("/articles/find-title?q=hard").await, ["c"]);
    l.stop().await;
}

/// An index in memory is rebuilt from the store at every start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_in_memory_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let l = start_in_memory(folder.path()).await;
    l.article("a", "Hard rock", "Nothing sweet.").await;
    eventually(async || l.find("rock").await == ["a"]).await;
    l.stop().await;
    let l = start_in_memory(folder.path()).await;
    eventually(async || l.find("rock").await == ["a"]).await;
    assert_eq!(
        std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count(),
        0
    );
    l.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_followed_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let l = start(folder.path()).await;
    for n in 0..5 {
        l.article(&format!("n{n}"), &format!("number {n}"), "same")
            .await;
    }
    eventually(async || l.find("same").await.len() == 5).await;
    assert_eq!(
        l.send("PATCH", "/articles/n1", "{\"body\":\"other\"}")
            .await
            .0,
        200
    );
    assert_eq!(l.send("DELETE", "/articles/n2", "").await.0, 204);
    eventually(async || {
        l.find("same").await == ["n0", "n3", "n4"] && l.find("other").await == ["n1"]
    })
    .await;
    // A batch changes more records than one event can list.
    l.articles(700).await;
    eventually(async || l.count("bulk").await == 700).await;
    assert_eq!(
        l.send(
            "POST",
            "/articles/rename-all",
            "{\"body\":\"bulk\",\"to\":\"renamed\"}"
        )
        .await
        .1,
        "700"
    );
    eventually(async || l.count("bulk").await == 0 && l.count("renamed").await == 700).await;
    l.stop().await;

    let l = start(folder.path()).await;
    assert_eq!(
        l.find("same").await,
        ["n0", "n3", "n4"],
        "at once: nothing is made anew"
    );
    assert_eq!(l.count("renamed").await, 700);
    l.article("n9", "number 9", "same").await;
    eventually(async || l.find("same").await.len() == 4).await;
    assert_eq!(
        l.running
            .adapters()
            .rebuild_search::<Article>()
            .await
            .unwrap(),
        705
    );
    assert_eq!(
        (l.find("same").await.len(), l.count("renamed").await),
        (4, 700)
    );
    l.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_equal_and_unequal_hits_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let l = start(folder.path()).await;
    // Equal texts with equal scores, in several segments; and some better ones.
    for n in 0..120 {
        let title = if n % 10 == 3 {
            "word word word"
        } else {
            "word"
        };
        l.article(&format!("p{n:03}"), title, "").await;
    }
    eventually(async || l.count("word").await == 120).await;
    for limit in [1, 7, 50, 119, 120, 121] {
        let seen = l.walk("word", limit).await;
        let mut sorted = seen.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!((seen.len(), sorted.len()), (120, 120), "{limit}: each once");
        assert!(
            seen[..12].iter().all(|id| id.ends_with('3')),
            "{limit}: the best first {seen:?}"
        );
        assert!(
            seen[12..].is_sorted(),
            "{limit}: equals in the order of ids"
        );
    }
    l.stop().await;
}

/// Records of another tenant are hidden, and do not make a page shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let l = start(folder.path()).await;
    for n in 0..40 {
        l.note("blue", &format!("blue-{n:02}")).await;
    }
    for n in 0..7 {
        l.note("red", &format!("red-{n}")).await;
    }
    eventually(async || l.hunt("blue", "secret").await.len() == 40).await;
    eventually(async || l.hunt("red", "secret").await.len() == 7).await;
    assert!(
        l.hunt("red", "secret")
            .await
            .iter()
            .all(|id| id.starts_with("red"))
    );
    assert_eq!(l.hunt("green", "secret").await, Vec::<String>::new());
    // Tenants with names that look like query syntax.
    for odd in ["-", "=", "=red", "red OR blue", ""] {
        assert_eq!(l.hunt(odd, "secret").await, Vec::<String>::new(), "{odd:?}");
    }
    let notes = l.running.adapter::<Note>().unwrap();
    let all = notes
        .hunt(
            &Cx::system("a test"),
            "secret",
            PageArgs {
                limit: Some(100),
                ..PageArgs::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(all.len(), 47, "the application itself sees all");
    l.stop().await;
}

/// Each file of an index is damaged in each way: the index is rebuilt, and the app starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_index_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let l = start(folder.path()).await;
    for n in 0..20 {
        l.article(&format!("n{n}"), &format!("number {n}"), "kept")
            .await;
    }
    eventually(async || l.count("kept").await == 20).await;
    l.stop().await;
    let index = folder.path().join("search/articles.index");
    let whole = tempfile::tempdir().unwrap();
    copy(&index, whole.path());
    let files: Vec<String> = std::fs::read_dir(&index)
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(files.len() > 5, "{files:?}");
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("empty", |file| std::fs::write(file, "").unwrap()),
        ("garbage", |file| {
            std::fs::write(file, vec![0xa5; 4096]).unwrap();
        }),
        ("cut", |file| {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a bit", |file| {
            let mut bytes = std::fs::read(file).unwrap();
            let middle = bytes.len() / 3;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 0x10;
            }
            std::fs::write(file, bytes).unwrap();
        }),
    ];
    for file in files.iter().filter(|file| *file != "linchpin-search-index") {
        for (name, damage) in damages {
            std::fs::remove_dir_all(&index).unwrap();
            std::fs::create_dir(&index).unwrap();
            copy(whole.path(), &index);
            damage(&index.join(file));
            let l = start(folder.path()).await;
            assert_eq!(l.find("kept").await.len(), 20, "{file} {name}");
            l.stop().await;
        }
        std::fs::remove_file(index.join(file)).unwrap_or_default();
        let l = start(folder.path()).await;
        assert_eq!(l.find("kept").await.len(), 20, "{file} is missing");
        l.stop().await;
    }
    // A directory that is empty, or missing.
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    let l = start(folder.path()).await;
    assert_eq!(l.find("kept").await.len(), 20);
    l.stop().await;
    std::fs::remove_dir_all(folder.path().join("search")).unwrap();
    let l = start(folder.path()).await;
    assert_eq!(l.find("kept").await.len(), 20);
    l.stop().await;
    // Other files are not touched.
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    std::fs::write(index.join("thesis.txt"), "years of work").unwrap();
    let error = try_start(folder.path(), "test.db")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("it holds something else than a search index"),
        "{error}"
    );
    assert_eq!(
        std::fs::read_to_string(index.join("thesis.txt")).unwrap(),
        "years of work"
    );
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Any text is accepted, and finds the same records as a simple implementation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_text_is_answered() {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    let folder = tempfile::tempdir().unwrap();
    let l = start(folder.path()).await;
    const TITLES: [&str; 8] = ["", "a", "a b", "ab c", "A-B", "b c d", "Ä ö", "a:b^2 \"c\""];
    for (n, title) in TITLES.iter().enumerate() {
        l.article(&format!("t{n}"), &format!("x{n} {title}"), "y")
            .await;
    }
    eventually(async || l.count("y").await == TITLES.len()).await;
    let adapter = l.running.adapter::<Article>().unwrap();
    let cx = Cx::system("a test");
    let cut = |text: &str| -> Vec<String> {
        let plain = text.to_lowercase().replace('ä', "a").replace('ö', "o");
        plain
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let readable = "[abcdxyäö0-9 :\"^~*()+\\-\\[\\]{}!/\\\\&|.,]{1,20}";
    for strategy in [
        readable.boxed(),
        "\\PC{1,40}".boxed(),
        any::<String>().boxed(),
    ] {
        for _ in 0..300 {
            let text = strategy.new_tree(&mut runner).unwrap().current();
            let found = adapter
                .find(
                    &cx,
                    text.as_str(),
                    PageArgs {
                        limit: Some(100),
                        ..PageArgs::default()
                    },
                )
                .await;
            let Ok(found) = found else {
                assert!(
                    text.trim().is_empty() || text.contains('\0') || text.chars().count() > 512,
                    "{text:?}"
                );
                continue;
            };
            if !text.is_ascii() && text.chars().any(|c| !c.is_ascii() && !"äöÄÖ".contains(c)) {
                continue;
            }
            let mut ids: Vec<String> = found.into_iter().map(|article| article.id).collect();
            ids.sort();
            let words = cut(&text);
            let expected: Vec<String> = (0..TITLES.len())
                .filter(|n| {
                    let there = cut(&format!("x{n} {} y", TITLES[*n]));
                    let Some((last, others)) = words.split_last() else {
                        return false;
                    };
                    others.iter().all(|word| there.contains(word))
                        && there.iter().any(|word| word.starts_with(last.as_str()))
                })
                .map(|n| format!("t{n}"))
                .collect();
            assert_eq!(ids, expected, "{text:?}");
        }
    }
    l.stop().await;
}

/// Runs the program and kills it repeatedly: after the last start every committed record is found
/// in its current state, and no other.
#[test]
fn kills_between_commit_and_indexing_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let before = support::stored(folder.path());
        let mut child = support::program(folder.path());
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while support::stored(folder.path()) < before + 20 {
            assert!(
                std::time::Instant::now() < deadline,
                "the program does not write"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // At different moments between a commit and its indexing.
        std::thread::sleep(std::time::Duration::from_millis(7 * round));
        // SIGKILL: no handler runs, nothing is flushed.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let l: Library = start(folder.path()).await;
        let file = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
        let mut rows = file
            .prepare("SELECT id, body FROM articles ORDER BY id")
            .unwrap();
        let rows = rows
            .query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .unwrap();
        let stored: Vec<(String, String)> = rows.map(Result::unwrap).collect();
        assert!(
            stored.len() > 60,
            "only {} records: the test tests nothing",
            stored.len()
        );
        let told = |body: &'static str| {
            stored
                .iter()
                .filter(move |(_, of)| of == body)
                .map(|(id, _)| id.clone())
                .collect::<Vec<_>>()
        };
        let found = async |q: &str| {
            let mut found = l.walk(q, 500).await;
            found.sort();
            found
        };
        eventually(async || {
            found("made").await == told("made") && found("changed").await == told("changed")
        })
        .await;
        // The app would drop documents that are not in the store, so the index itself is checked
        // for them.
        l.stop().await;
        assert_eq!(
            support::ids_in_the_index(folder.path()),
            stored.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>()
        );
    });
}
