//! The plugin: it registers the jobs of an app, and runs its worker.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin::{BoxFuture, Command, Error, Package, Plugin, PostCx, Problem, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::command;
use crate::entity::{ENTITIES, QueuedJob};
use crate::job::{Job, Kind};
use crate::queue::JobQueue;
use crate::recurring::{Recurring, parse};
use crate::run::Runner;
use linchpin_worker::Worker;

/// The name of the plugin.
const PLUGIN: &str = "jobs";
/// The maximum time for which a stop waits for running jobs.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_hours(24);

/// Background jobs of an app. See the [crate](crate) for an example.
///
/// Handlers add jobs with [`JobQueue`], which `adapters.provided::<JobQueue>()` returns. The
/// command `jobs` lists jobs, and retries or drops parked ones.
pub struct Jobs {
    kinds: Vec<Kind>,
    /// The name, the cron expression and the payload of each recurring job.
    recurring: Vec<(&'static str, String, Result<String>)>,
    at_once: usize,
    /// Set by the set-up of the app.
    runner: OnceLock<(Arc<Runner>, Arc<Notify>)>,
    worker: Mutex<Option<Worker>>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            kinds: Vec::new(),
            recurring: Vec::new(),
            at_once: 16,
            runner: OnceLock::new(),
            worker: Mutex::default(),
        }
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.kinds.iter().map(|kind| kind.name);
        f.debug_list().entries(names).finish()
    }
}

impl Jobs {
    /// The plugin, without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs jobs of a type. A second call with the same type changes nothing.
    #[must_use]
    pub fn job<T: Job>(mut self) -> Self {
        let kind = Kind::of::<T>();
        if self.kinds.iter().all(|known| known.id != kind.id) {
            self.kinds.push(kind);
        }
        self
    }

    /// Runs a job on a schedule: a cron expression of five fields in UTC, or of six fields if the
    /// last one is a time zone. For each time of the schedule, one process runs the job. If times
    /// pass while no process is running, the job runs once at the next start.
    ///
    /// ```
    /// # use linchpin::Result;
    /// # use linchpin_jobs::{Job, JobCx, Jobs};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize)]
    /// struct Report;
    ///
    /// impl Job for Report {
    ///     const NAME: &'static str = "report";
    ///
    ///     async fn run(self, _: JobCx) -> Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let jobs = Jobs::new().every("0 3 * * 1-5 Europe/Berlin", &Report);
    /// # drop(jobs);
    /// ```
    #[must_use]
    pub fn every<T: Job>(mut self, schedule: &str, job: &T) -> Self {
        let payload = serde_json::to_string(job).map_err(Error::internal);
        self.recurring.push((T::NAME, schedule.to_owned(), payload));
        self.job::<T>()
    }

    /// Sets the number of jobs that this process runs at the same time; 16 by default.
    #[must_use]
    pub fn at_once(mut self, count: usize) -> Self {
        self.at_once = count;
        self
    }

    /// Checks the declaration. Returns the schedules, or all problems.
    fn check(&self) -> std::result::Result<Vec<Recurring>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |text: String| problems.push(Problem::new("jobs", "invalid", text));
        let mut seen = BTreeSet::new();
        for kind in &self.kinds {
            let name = kind.name;
            if name.is_empty() || name.len() > 100 {
                wrong(format!("the job `{name}` needs a name of 1 to 100 bytes"));
            }
            if !seen.insert(name) {
                wrong(format!("two jobs are named `{name}`: rename one of them"));
            }
            if kind.attempts == 0 {
                wrong(format!("the job `{name}` needs `ATTEMPTS` of 1 or more"));
            }
            if kind.timeout.is_zero() || kind.timeout > DAY {
                wrong(format!(
                    "the job `{name}` needs a `TIMEOUT` of more than zero and at most one day"
                ));
            }
        }
        if !(1..=1_000).contains(&self.at_once) {
            wrong(format!("`at_once` must be 1 to 1000, not {}", self.at_once));
        }
        let mut recurring: Vec<Recurring> = Vec::new();
        for (name, text, payload) in &self.recurring {
            if recurring.iter().any(|known| known.name == *name) {
                wrong(format!(
                    "the job `{name}` has two schedules: use a separate type for each"
                ));
                continue;
            }
            match (parse(text), payload) {
                (Ok(schedule), Ok(payload)) => recurring.push(Recurring {
                    name,
                    payload: payload.clone(),
                    schedule,
                }),
                (Err(error), _) => wrong(format!(
                    "the schedule `{text}` of the job `{name}` cannot be read: {error}"
                )),
                (_, Err(_)) => wrong(format!("the job `{name}` cannot be written as JSON")),
            }
        }
        if problems.is_empty() {
            Ok(recurring)
        } else {
            Err(problems)
        }
    }

    async fn set_up(&self, cx: &mut PostCx) -> Result<()> {
        let recurring = self.check().map_err(Error::validation)?;
        let records = cx.adapters().get::<QueuedJob>()?;
        let kinds: BTreeMap<&'static str, Kind> =
            self.kinds.iter().map(|kind| (kind.name, *kind)).collect();
        let wake = Arc::new(Notify::new());
        cx.adapters().provide(JobQueue {
            records: records.clone(),
            wake: Arc::clone(&wake),
            names: kinds.keys().map(|name| (*name).to_owned()).collect(),
        });
        let runner = Arc::new(Runner {
            records,
            adapters: cx.adapters().clone(),
            clock: Arc::clone(cx.clock()),
            kinds,
            recurring,
            at_once: self.at_once,
        });
        for one in &runner.recurring {
            one.ensure(&runner.records, &runner.cx()).await?;
        }
        self.runner
            .set((runner, wake))
            .map_err(|_| Error::internal("the plugin was set up twice"))
    }
}

impl Plugin for Jobs {
    fn name(&self) -> &'static str {
        PLUGIN
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&ENTITIES];
        &PACKAGES
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.set_up(cx))
    }

    fn started(&self) {
        if let Some((runner, wake)) = self.runner.get() {
            *self.worker.lock() = Some(Worker::start(Arc::clone(runner), Arc::clone(wake)));
        }
    }

    fn stopping(&self, _: Duration) -> BoxFuture<'_, ()> {
        if let Some(worker) = &*self.worker.lock() {
            worker.stop();
        }
        Box::pin(async {})
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let worker = self.worker.lock().take();
            if let Some(worker) = worker {
                worker.ended(STOP_TIMEOUT).await;
            }
            Ok(())
        })
    }

    fn commands(&self) -> Vec<Command> {
        vec![Command::over("jobs", command::ABOUT, command::run)]
    }
}
