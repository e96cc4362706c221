//! Tests that the commands of `docs/migrations.md` have the documented effect.

use example_support::client::Client;
use example_support::markdown::{blocks, prose, read};
use example_support::session::{Step, steps};

use crate::board::{Board, Tasks};
use crate::rows::Database;
use crate::sqlite;
use crate::version::Version;

const CHAPTER: &str = "docs/migrations.md";

/// The shell sessions of the chapter.
fn sessions() -> [Vec<Step>; 3] {
    let blocks = blocks(&read(CHAPTER));
    let sessions = blocks.iter().filter(|block| block.kind == "console");
    let sessions: Vec<Vec<Step>> = sessions.map(|block| steps(&block.text)).collect();
    sessions.try_into().expect("three sessions")
}

/// The arguments of a command, without the program and without a comment.
fn arguments(command: &str) -> &str {
    let command = command.split(" #").next().unwrap_or_default().trim();
    let app = command.strip_prefix("cargo run -- ");
    app.or_else(|| command.strip_prefix("app "))
        .expect("a command of an app")
}

#[test]
fn a_change_is_recorded_as_shown() {
    let [recording, ..] = sessions();
    let version = Version::with_migrations(4, 3, "sqlite:unused.db");
    for Step { command, output } in recording {
        assert_eq!(version.run(arguments(&command)), (0, output), "{command}");
    }
}

#[test]
fn a_change_is_deployed_as_shown() {
    let [_, deploying, _] = sessions();
    let folder = tempfile::tempdir().expect("a folder");
    let url = sqlite(&folder);
    let (old, new) = (Version::new(7, &url), Version::new(8, &url));
    old.run_to_end("apply");
    let (mut former, mut tasks) = (Some(old.serve()), Tasks::new());
    let mut board = Board::new(7, Client::user(former.as_ref().expect("one"), "alice", &[]));
    board.create(&mut tasks, "Buy bread");
    let mut served = None;
    let mut digests: Vec<String> = Vec::new();
    for Step { command, output } in deploying {
        let words = arguments(&command);
        let words = match digests.last() {
            Some(digest) => words.replace("DIGEST", digest),
            None => words.to_owned(),
        };
        let (exit, text) = new.run(&words);
        assert_eq!(exit, 0, "{command}: {text}");
        let digest = text
            .lines()
            .find_map(|line| line.strip_prefix("approval digest "));
        digests.extend(digest.map(str::to_owned));
        board.assert_tasks(&tasks);
        if output.contains("stop the old one") {
            let server = new.serve();
            let client = board.at(8, &server);
            client.create(&mut tasks, "Buy milk");
            board.assert_tasks(&tasks);
            former.take().expect("one").stop();
            (board, served) = (client, Some(server));
        }
    }
    // Both plans have the same digest.
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1]);
    board.assert_tasks(&tasks);
    new.run_to_end("plan --check");
    old.assert_not_serving();
    served.expect("the new version serves").stop();
}

#[test]
fn a_database_of_an_earlier_release_is_adopted_as_shown() {
    let [_, _, adopting] = sessions();
    let folder = tempfile::tempdir().expect("a folder");
    let url = sqlite(&folder);
    Version::new(1, &url).run_to_end("apply");
    Database::new(&url).drop_ledger();
    let version = Version::with_migrations(1, 0, &url);
    for Step { command, .. } in adopting {
        let (exit, text) = version.run(arguments(&command));
        assert_eq!(exit, 0, "{command}: {text}");
    }
    version.run_to_end("plan --check");
    version.run_to_end("verify");
}

/// The help lists all commands and options that the text of the chapter names.
#[test]
fn the_help_lists_what_the_chapter_names() {
    let version = Version::new(1, "sqlite:unused.db");
    let help = |words: &str| {
        let (exit, help) = version.run(&format!("{words} --help"));
        assert_eq!(exit, 0, "{words}: {help}");
        help
    };
    let all = help("migrate");
    let commands: Vec<&str> = all
        .lines()
        .filter_map(|line| line.trim().strip_prefix("migrate ")?.split(' ').next())
        .collect();
    let options: String = commands
        .iter()
        .map(|command| help(&format!("migrate {command}")))
        .collect();
    let text = read(CHAPTER);
    let lines: Vec<&str> = prose(&text).into_iter().map(|(_, line)| line).collect();
    let text = lines.join(" ");
    let (mut named, mut listed) = (0, 0);
    for code in text.split('`').skip(1).step_by(2) {
        let words: Vec<&str> = code.split_whitespace().collect();
        if let ["migrate", command, ..] = words[..]
            && !command.starts_with("--")
        {
            named += 1;
            assert!(commands.contains(&command), "{code}\n{all}");
        }
        for option in words.iter().filter(|word| word.starts_with("--")) {
            listed += 1;
            assert!(
                *option == "--help" || options.contains(option),
                "{code}\n{options}"
            );
        }
    }
    assert!(
        named > 10 && listed > 5,
        "{named} commands, {listed} options"
    );
}
