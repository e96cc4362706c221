//! The command `jobs`: it lists jobs, and retries or drops parked ones.

use std::fmt::Write as _;

use linchpin::entity::{Direction, ListQuery};
use linchpin::{Adapters, Code, Cx, Error, Field, FieldEnum, Result};

use crate::entity::{JobStatus, QueuedJob, queued_job};

pub(crate) const ABOUT: &str = "lists background jobs, and retries or drops parked ones: list [--parked] | retry ID… | drop ID…";

/// The maximum number of jobs in a list.
const MAX_LISTED: u32 = 200;

pub(crate) async fn run(adapters: Adapters, args: Vec<String>) -> Result<String> {
    let jobs = adapters.get::<QueuedJob>()?;
    let cx = Cx::system("the command `jobs`");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [] | ["list"] => list(&adapters, &cx, None).await,
        ["list", "--parked"] => list(&adapters, &cx, Some(JobStatus::Parked)).await,
        ["retry", ids @ ..] if !ids.is_empty() => {
            let count = jobs.retry(&cx, ids.to_vec()).await?;
            Ok(format!("{count} of {} jobs run again", ids.len()))
        }
        ["drop", ids @ ..] if !ids.is_empty() => {
            let count = jobs.drop(&cx, ids.to_vec()).await?;
            Ok(format!("{count} of {} jobs dropped", ids.len()))
        }
        _ => Err(Error::new(
            Code::Internal,
            format!("usage: jobs {}", usage()),
        )),
    }
}

fn usage() -> &'static str {
    ABOUT.rsplit(": ").next().unwrap_or_default()
}

async fn list(adapters: &Adapters, cx: &Cx, status: Option<JobStatus>) -> Result<String> {
    let mut query = ListQuery::new()
        .sort(queued_job::due_at, Direction::Asc)
        .limit(MAX_LISTED);
    if let Some(status) = status {
        query = query.filter(queued_job::status.eq(status));
    }
    let page = adapters.get::<QueuedJob>()?.list(cx, query).await?;
    if page.items.is_empty() {
        return Ok("no jobs".to_owned());
    }
    let mut out = String::new();
    for job in &page.items {
        let error = job
            .error
            .as_deref()
            .unwrap_or_default()
            .replace(['\n', '\r'], " ");
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{}  {:<8} {}  attempts {}  due {}  {error}",
            job.id,
            job.status.as_str(),
            job.name,
            job.attempts,
            job.due_at,
        );
    }
    if page.has_more {
        let _ = writeln!(out, "and more");
    }
    Ok(out.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use linchpin::prelude::*;

    use super::*;
    use crate::Jobs;
    use crate::entity::QueuedJobCreate;

    #[tokio::test]
    async fn parked_jobs_are_listed_retried_and_dropped() {
        let config = Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("x".repeat(40));
        let app = App::new(config).plugin(Jobs::new()).start().await.unwrap();
        let adapters = app.adapters().clone();
        let records = adapters.get::<QueuedJob>().unwrap();
        let cx = Cx::system("a test");
        let mut ids = Vec::new();
        for status in [JobStatus::Parked, JobStatus::Parked, JobStatus::Waiting] {
            let record = QueuedJobCreate {
                name: "mail".to_owned(),
                payload: "{}".to_owned(),
                key: None,
                status: Some(status),
                due_at: Timestamp::from_millis(0),
                attempts: Some(3),
                error: Some("line one\nline two".to_owned()),
            };
            ids.push(records.create(&cx, record).await.unwrap().id);
        }
        let run = async |args: &[&str]| {
            let args = args.iter().copied().map(str::to_owned).collect();
            super::run(adapters.clone(), args).await
        };
        assert_eq!(run(&["list"]).await.unwrap().lines().count(), 3);
        let parked = run(&["list", "--parked"]).await.unwrap();
        assert_eq!(parked.lines().count(), 2, "{parked}");
        assert!(parked.contains("line one line two"), "{parked}");
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        // Only parked jobs change.
        let dropped = run(&["drop", ids[0], ids[2], "none"]).await.unwrap();
        assert_eq!(dropped, "1 of 3 jobs dropped");
        let retried = run(&["retry", ids[1]]).await.unwrap();
        assert_eq!(retried, "1 of 1 jobs run again");
        let job = records.get(&cx, ids[1]).await.unwrap().unwrap();
        assert_eq!((job.status, job.attempts), (JobStatus::Waiting, 0));
        for wrong in [&["retry"][..], &["drop"], &["sing"], &["list", "--all"]] {
            assert!(run(wrong).await.is_err(), "{wrong:?}");
        }
    }
}
