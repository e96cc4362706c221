//! Search over HTTP, with the index in a directory: matches, restarts, damage, and kills between
//! commit and indexing.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

mod support;

use std::path::Path;

use linchpin::prelude::*;
use support::{Article, Library, Note, eventually, start, start_in_memory, try_start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_are_ordered_by_relevance() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    library
        .article("a", "Crème brûlée", "A dessert with a hard top.")
        .await;
    library
        .article(
            "b",
            "Desserts of the world",
            "From crème to tiramisù, and back again.",
        )
        .await;
    library.article("c", "Hard rock", "Nothing sweet.").await;
    library.indexed("articles", 3).await;
    // Case and accents are ignored; a title has more weight than a body.
    assert_eq!(library.find("CREME").await, ["a", "b"]);
    assert_eq!(library.find("creme brulee").await, ["a"], "every word");
    assert_eq!(library.find("hard").await, ["c", "a"]);
    // Only the last word may be a prefix.
    assert_eq!(library.find("crème tirami").await, ["b"]);
    assert_eq!(library.find("dess").await.len(), 2);
    assert_eq!(library.find("dess hard").await, Vec::<String>::new());
    assert_eq!(
        library.find("rew").await,
        Vec::<String>::new(),
        "no word begins with it"
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
            library.find(&words).await
        };
        assert_eq!(library.find(q).await, plain, "{q}");
    }
    // The operation selects the fields to search.
    assert_eq!(library.ids("/articles/find-title?q=hard").await, ["c"]);
    library.stop().await;
}

/// An index in memory is rebuilt from the store at every start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_in_memory_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let library = start_in_memory(folder.path()).await;
    library.article("a", "Hard rock", "Nothing sweet.").await;
    eventually(async || library.find("rock").await == ["a"]).await;
    library.stop().await;
    let library = start_in_memory(folder.path()).await;
    eventually(async || library.find("rock").await == ["a"]).await;
    assert_eq!(
        std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count(),
        0
    );
    library.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_indexed_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    for n in 0..5 {
        library
            .article(&format!("n{n}"), &format!("number {n}"), "same")
            .await;
    }
    eventually(async || library.find("same").await.len() == 5).await;
    assert_eq!(
        library
            .send("PATCH", "/articles/n1", "{\"body\":\"other\"}")
            .await
            .0,
        200
    );
    assert_eq!(library.send("DELETE", "/articles/n2", "").await.0, 204);
    eventually(async || {
        library.find("same").await == ["n0", "n3", "n4"] && library.find("other").await == ["n1"]
    })
    .await;
    // A batch changes more records than one event can list.
    library.articles(700).await;
    eventually(async || library.count("bulk").await == 700).await;
    assert_eq!(
        library
            .send(
                "POST",
                "/articles/rename-all",
                "{\"body\":\"bulk\",\"to\":\"renamed\"}"
            )
            .await
            .1,
        "700"
    );
    eventually(async || library.count("bulk").await == 0 && library.count("renamed").await == 700)
        .await;
    library.stop().await;

    let library = start(folder.path()).await;
    assert_eq!(
        library.find("same").await,
        ["n0", "n3", "n4"],
        "the index is not rebuilt at the start"
    );
    assert_eq!(library.count("renamed").await, 700);
    library.article("n9", "number 9", "same").await;
    eventually(async || library.find("same").await.len() == 4).await;
    assert_eq!(
        library
            .running
            .adapters()
            .rebuild_search::<Article>()
            .await
            .unwrap(),
        705
    );
    assert_eq!(
        (
            library.find("same").await.len(),
            library.count("renamed").await
        ),
        (4, 700)
    );
    library.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_hits_with_equal_scores_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    // Records with equal scores, in several segments, and some with better scores.
    for n in 0..120 {
        let title = if n % 10 == 3 {
            "word word word"
        } else {
            "word"
        };
        library.article(&format!("p{n:03}"), title, "").await;
    }
    eventually(async || library.count("word").await == 120).await;
    for limit in [1, 7, 50, 119, 120, 121] {
        let seen = library.walk("word", limit).await;
        let mut sorted = seen.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(
            (seen.len(), sorted.len()),
            (120, 120),
            "{limit}: each record once"
        );
        assert!(
            seen[..12].iter().all(|id| id.ends_with('3')),
            "{limit}: the best first {seen:?}"
        );
        assert!(
            seen[12..].is_sorted(),
            "{limit}: equal scores in the order of ids"
        );
    }
    library.stop().await;
}

/// Records of another tenant are hidden, and do not make a page shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_results_contain_no_records_of_other_tenants() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    for n in 0..40 {
        library.note("blue", &format!("blue-{n:02}")).await;
    }
    for n in 0..7 {
        library.note("red", &format!("red-{n}")).await;
    }
    eventually(async || library.hunt("blue", "secret").await.len() == 40).await;
    eventually(async || library.hunt("red", "secret").await.len() == 7).await;
    assert!(
        library
            .hunt("red", "secret")
            .await
            .iter()
            .all(|id| id.starts_with("red"))
    );
    assert_eq!(library.hunt("green", "secret").await, Vec::<String>::new());
    // Tenants with names that look like query syntax.
    for odd in ["-", "=", "=red", "red OR blue", ""] {
        assert_eq!(
            library.hunt(odd, "secret").await,
            Vec::<String>::new(),
            "{odd:?}"
        );
    }
    let notes = library.running.adapter::<Note>().unwrap();
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
    assert_eq!(all.len(), 47, "the application itself finds all records");
    library.stop().await;
}

/// Each file of an index is damaged in each way: the index is rebuilt, and the app starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_index_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    for n in 0..20 {
        library
            .article(&format!("n{n}"), &format!("number {n}"), "kept")
            .await;
    }
    eventually(async || library.count("kept").await == 20).await;
    library.stop().await;
    let index = folder.path().join("search/articles.index");
    let intact = tempfile::tempdir().unwrap();
    copy(&index, intact.path());
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
            copy(intact.path(), &index);
            damage(&index.join(file));
            let library = start(folder.path()).await;
            assert_eq!(library.find("kept").await.len(), 20, "{file} {name}");
            library.stop().await;
        }
        std::fs::remove_file(index.join(file)).unwrap_or_default();
        let library = start(folder.path()).await;
        assert_eq!(library.find("kept").await.len(), 20, "{file} is missing");
        library.stop().await;
    }
    // An empty directory, and a missing one.
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    let library = start(folder.path()).await;
    assert_eq!(library.find("kept").await.len(), 20);
    library.stop().await;
    std::fs::remove_dir_all(folder.path().join("search")).unwrap();
    let library = start(folder.path()).await;
    assert_eq!(library.find("kept").await.len(), 20);
    library.stop().await;
    // A directory with other files is refused and not changed.
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    std::fs::write(index.join("thesis.txt"), "years of work").unwrap();
    let error = try_start(folder.path(), "test.db")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the folder contains something other than a search index"),
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

/// Any text is accepted that is not blank, has at most 512 characters and no NUL. It finds the same
/// records as a simple implementation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_search_text_is_accepted() {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path()).await;
    const TITLES: [&str; 8] = ["", "a", "a b", "ab c", "A-B", "b c d", "Ä ö", "a:b^2 \"c\""];
    for (n, title) in TITLES.iter().enumerate() {
        library
            .article(&format!("t{n}"), &format!("x{n} {title}"), "y")
            .await;
    }
    eventually(async || library.count("y").await == TITLES.len()).await;
    let adapter = library.running.adapter::<Article>().unwrap();
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
                    let title_words = cut(&format!("x{n} {} y", TITLES[*n]));
                    let Some((last, others)) = words.split_last() else {
                        return false;
                    };
                    others.iter().all(|word| title_words.contains(word))
                        && title_words
                            .iter()
                            .any(|word| word.starts_with(last.as_str()))
                })
                .map(|n| format!("t{n}"))
                .collect();
            assert_eq!(ids, expected, "{text:?}");
        }
    }
    library.stop().await;
}

/// Runs the program and kills it repeatedly. After the last start, the search finds every committed
/// record in its current state, and no other record.
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
        // The kill comes at different moments between a commit and its indexing.
        std::thread::sleep(std::time::Duration::from_millis(7 * round));
        // It is SIGKILL: no handler runs, and nothing is flushed.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let library: Library = start(folder.path()).await;
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
            "only {} records: too few for the test",
            stored.len()
        );
        let ids_with_body = |body: &'static str| {
            stored
                .iter()
                .filter(move |(_, of)| of == body)
                .map(|(id, _)| id.clone())
                .collect::<Vec<_>>()
        };
        let found = async |q: &str| {
            let mut found = library.walk(q, 500).await;
            found.sort();
            found
        };
        eventually(async || {
            found("made").await == ids_with_body("made")
                && found("changed").await == ids_with_body("changed")
        })
        .await;
        // Search results omit documents whose records are not in the store, so this check reads the
        // index itself.
        library.stop().await;
        assert_eq!(
            support::ids_in_the_index(folder.path()),
            stored.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>()
        );
    });
}
