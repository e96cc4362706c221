//! Sample data: the boards of two people.

use linchpin::prelude::*;
use linchpin_auth::{AuthService, NewUser};

use crate::{Task, TaskCreate};

/// The owners of the boards. They have no passwords: the command `token` prints a token for each.
const OWNERS: [&str; 2] = ["alice@example.com", "bob@example.com"];
/// The position of the owner in `OWNERS`, the title, the tags and the due date of each task.
const TASKS: [(usize, &str, &[&str], Option<&str>); 5] = [
    (0, "Water the plants", &["home"], None),
    (
        0,
        "Write the report",
        &["work", "urgent"],
        Some("2026-03-02T12:00:00Z"),
    ),
    (0, "Call the bank", &["work"], Some("2026-03-05T09:00:00Z")),
    (
        1,
        "Fix the bicycle",
        &["home"],
        Some("2026-04-01T18:00:00Z"),
    ),
    (1, "Book the train", &[], None),
];

/// Creates the accounts and the tasks, and changes the state of some tasks. A second call fails,
/// because the accounts exist.
pub async fn run(adapters: Adapters, _: Vec<String>) -> Result<String> {
    let (tasks, accounts) = (adapters.get::<Task>()?, adapters.provided::<AuthService>()?);
    let mut owners = Vec::new();
    for email in OWNERS {
        owners.push(
            accounts
                .create_user(NewUser::new(email).verified())
                .await?
                .id,
        );
    }
    for (n, (owner, title, tags, due_at)) in TASKS.into_iter().enumerate() {
        // The owner of a task is the caller who creates it.
        let cx = Cx::actor(Actor::user(owners[owner].as_str()));
        let task = TaskCreate {
            title: title.to_owned(),
            tags: Some(tags.iter().map(|&tag| tag.to_owned()).collect()),
            due_at: due_at
                .map(|text| Timestamp::parse(text).map_err(Error::internal))
                .transpose()?,
        };
        let task = tasks.create(&cx, task).await?;
        if n % 2 == 1 {
            tasks.start(&cx, &task.id).await?;
        }
    }
    Ok(format!("{} accounts, {} tasks", OWNERS.len(), TASKS.len()))
}
