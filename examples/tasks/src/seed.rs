//! Something to look at: the boards of two people.

use linchpin::prelude::*;

use crate::{Task, TaskCreate};

/// Owner, title, tags, due date.
const TASKS: [(&str, &str, &[&str], Option<&str>); 5] = [
    ("alice", "Water the plants", &["home"], None),
    ("alice", "Write the report", &["work", "urgent"], Some("2026-03-02T12:00:00Z")),
    ("alice", "Call the bank", &["work"], Some("2026-03-05T09:00:00Z")),
    ("bob", "Fix the bicycle", &["home"], Some("2026-04-01T18:00:00Z")),
    ("bob", "Book the train", &[], None),
];

/// Creates the tasks, and moves some of them on.
pub async fn run(adapters: Adapters, _: Vec<String>) -> Result<String> {
    let tasks = adapters.get::<Task>()?;
    for (n, (owner, title, tags, due_at)) in TASKS.into_iter().enumerate() {
        // As if the owner had called: that is where a task's owner comes from.
        let cx = Cx::actor(Actor::user(owner));
        let task = TaskCreate {
            title: title.to_owned(),
            tags: Some(tags.iter().map(|&tag| tag.to_owned()).collect()),
            due_at: due_at.map(|text| Timestamp::parse(text).map_err(Error::internal)).transpose()?,
        };
        let task = tasks.create(&cx, task).await?;
        if n % 2 == 1 {
            tasks.start(&cx, &task.id).await?;
        }
    }
    Ok(format!("{} tasks", TASKS.len()))
}
