//! Runs sequences of calls on the memory model and on a store. Every response must be equal. After
//! every write, the stored records must be equal, and so must the records that each actor sees.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use linchpin::entity::{Entity, EntityDesc, Paging, ScopeFrom};
use linchpin::http::{Action, Endpoint};
use linchpin::store::Store;
use linchpin::store::memory::Memory;

use super::compare::Tolerance;
use super::fixture::ALL;
use super::fixture::related::{Job, Person, Project};
use super::sequence::{Call, Step, What};
use super::side::{ACTORS, Answer, COMPARED_EVENTS, Side};
use super::{generate, shrink};

/// The number of responses of each kind, by route: a status, and for refusals a code.
pub type ResponseCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// A difference between a store and the model.
#[derive(Debug)]
pub struct Difference {
    /// The step that showed the difference.
    pub at: usize,
    pub text: String,
}

pub struct Pair {
    model: Side,
    store: Side,
    pub routes: Vec<Endpoint>,
    /// Whether JSON is compared by meaning, see [`Tolerance`].
    by_meaning: bool,
    pub seen: ResponseCounts,
    /// For each entity: the time and the records at the last comparison of all views. The time is 0
    /// if records do not expire.
    compared: HashMap<&'static str, (i64, String)>,
    /// Whether events may not have arrived yet.
    events_pending: bool,
}

impl Pair {
    pub async fn new(store: Arc<dyn Store>) -> Self {
        let by_meaning = store.name() == "postgres";
        let (model, store) = (
            Side::new(Arc::new(Memory::new())).await,
            Side::new(store).await,
        );
        let routes = store.routes();
        Self {
            model,
            store,
            routes,
            by_meaning,
            seen: ResponseCounts::new(),
            compared: HashMap::new(),
            events_pending: false,
        }
    }

    /// Stops both sides, and returns the number of responses of each kind.
    pub async fn stop(self) -> ResponseCounts {
        self.model.stop().await;
        self.store.stop().await;
        self.seen
    }

    /// Runs a sequence on empty stores.
    pub async fn run(&mut self, steps: &[Step]) -> Result<(), Difference> {
        if self.events_pending {
            // Events of a sequence that was not completed.
            self.model.take_events().await;
            self.store.take_events().await;
        }
        self.model.reset().await;
        self.store.reset().await;
        self.compared.clear();
        let is_compared = |desc: &EntityDesc| COMPARED_EVENTS.contains(&desc.storage_name);
        self.events_pending = steps.iter().any(|step| {
            self.changed_entities(&step.what)
                .iter()
                .any(|desc| is_compared(desc))
        });
        for (at, step) in steps.iter().enumerate() {
            self.step(step)
                .await
                .map_err(|text| Difference { at, text })?;
        }
        let at = steps.len().saturating_sub(1);
        for entry in ALL.entities {
            self.compare_contents(entry.desc)
                .await
                .map_err(|text| Difference { at, text })?;
        }
        if !self.events_pending {
            return Ok(());
        }
        let (expected, found) = (
            self.model.take_events().await,
            self.store.take_events().await,
        );
        self.events_pending = false;
        if expected != found {
            return Err(Difference {
                at,
                text: format!("events\nmodel:\n{expected}\nstore:\n{found}"),
            });
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        // Calls on the memory store never wait. Without a pause, the relays on this thread cannot
        // renew their leases, and they deliver events again after the end of a lease.
        tokio::task::yield_now().await;
        self.model.advance(step.advance);
        self.store.advance(step.advance);
        let (mut next, mut pages) = (false, 0);
        loop {
            let (expected, found) = match &step.what {
                What::Call(call) => (
                    self.model.call(step.actor, call, next).await,
                    self.store.call(step.actor, call, next).await,
                ),
                What::Filtered(filtered) => (
                    self.model.filtered(step.actor, filtered, next).await,
                    self.store.filtered(step.actor, filtered, next).await,
                ),
                What::Code(code) => (
                    self.model.act(&code.acts, code.end).await,
                    self.store.act(&code.acts, code.end).await,
                ),
            };
            self.tolerance(&step.what).check_equal(&expected, &found)?;
            if pages == 0 {
                self.count_response(&step.what, &expected);
            }
            pages += 1;
            if !expected.more {
                break;
            }
            if pages > 250 {
                return Err("the pages do not end".to_owned());
            }
            next = true;
        }
        for desc in self.changed_entities(&step.what) {
            self.compare_contents(desc).await?;
        }
        Ok(())
    }

    fn endpoint(&self, call: &Call) -> Option<&Endpoint> {
        self.routes
            .iter()
            .find(|e| e.path == call.route && e.method.as_str() == call.method)
    }

    fn count_response(&mut self, what: &What, answer: &Answer) {
        let name = match what {
            What::Call(call) => {
                let with = if call.query.iter().any(|(name, _)| name == "include") {
                    " with include"
                } else {
                    ""
                };
                format!("{} {}{with}", call.method, call.route)
            }
            What::Filtered(filtered) => format!("filtered {}", filtered.entity),
            What::Code(code) => format!("code, {:?}", code.end),
        };
        let code = answer
            .text
            .split_once("\"code\":\"")
            .and_then(|(_, rest)| rest.split('"').next())
            .unwrap_or_default();
        let again = if answer.text.contains("idempotency-replayed: true") {
            " again"
        } else {
            ""
        };
        let kind = if answer.status < 400 {
            format!("{}{again}", answer.status)
        } else {
            format!("{} {code}", answer.status)
        };
        *self.seen.entry(name).or_default().entry(kind).or_default() += 1;
    }

    /// The entities that a step may have changed: the called entity, and the entities with records
    /// that depend on it.
    fn changed_entities(&self, what: &What) -> Vec<&'static EntityDesc> {
        match what {
            What::Call(call) if call.method != "GET" => self
                .endpoint(call)
                .and_then(|e| e.table.as_ref())
                .map(|t| affected(&[t.desc]))
                .unwrap_or_default(),
            What::Code(_) => affected(&[Person::DESC, Project::DESC, Job::DESC]),
            _ => Vec::new(),
        }
    }

    fn tolerance(&self, what: &What) -> Tolerance {
        let sums = match what {
            What::Call(call) => self
                .endpoint(call)
                .is_some_and(|endpoint| match endpoint.action {
                    Action::Operation(spec, _) if spec.kind.name() == "aggregate" => true,
                    _ => endpoint.table.as_ref().is_some_and(|t| holds_sums(t.desc)),
                }),
            What::Code(_) => false,
            What::Filtered(filtered) => ALL
                .entities
                .iter()
                .any(|e| e.desc.storage_name == filtered.entity && holds_sums(e.desc)),
        };
        Tolerance {
            by_meaning: self.by_meaning,
            sums,
        }
    }

    /// Compares the stored records of an entity, and the records that each actor sees.
    async fn compare_contents(&mut self, desc: &'static EntityDesc) -> Result<(), String> {
        let tolerance = Tolerance {
            by_meaning: self.by_meaning,
            sums: holds_sums(desc),
        };
        let (expected, found) = (
            self.model.contents(desc).await,
            self.store.contents(desc).await,
        );
        if !tolerance.same(&expected, &found) {
            return Err(format!(
                "contents of {}\nmodel:\n{expected}\nstore:\n{found}",
                desc.name
            ));
        }
        for (side, name) in [(&self.model, "model"), (&self.store, "store")] {
            side.check_counters(desc)
                .await
                .map_err(|text| format!("{name}: {text}\n{expected}"))?;
        }
        // The visible records depend on the stored ones, and on the time if records expire.
        let now = if desc.ttl.is_some() {
            self.model.now().millis()
        } else {
            0
        };
        let known = (now, expected);
        if self.compared.get(desc.storage_name) == Some(&known) {
            return Ok(());
        }
        self.compared.insert(desc.storage_name, known);
        for (actor, view) in views(desc) {
            let (expected, found) = (
                self.model.call(actor, &view, false).await,
                self.store.call(actor, &view, false).await,
            );
            tolerance.check_equal(&expected, &found).map_err(|text| {
                format!(
                    "the records that actor {actor} sees at {:?}: {text}",
                    view.path
                )
            })?;
        }
        Ok(())
    }
}

/// The given entities, and the entities whose records change when records of the given entities are
/// deleted.
fn affected(directly_changed: &[&'static EntityDesc]) -> Vec<&'static EntityDesc> {
    let mut all = directly_changed.to_vec();
    let mut at = 0;
    while let Some(changed) = all.get(at).copied() {
        at += 1;
        for desc in ALL.entities.iter().map(|entry| entry.desc) {
            let follows = desc.relations.iter().any(|r| {
                r.enforced().is_some() && (r.target)().storage_name == changed.storage_name
            });
            if follows
                && all
                    .iter()
                    .all(|known| known.storage_name != desc.storage_name)
            {
                all.push(desc);
            }
        }
    }
    // Adds the entities with counters that count records of these entities.
    for target in all
        .clone()
        .iter()
        .flat_map(|desc| desc.summaries)
        .map(|summary| (summary.target)())
    {
        if all
            .iter()
            .all(|known| known.storage_name != target.storage_name)
        {
            all.push(target);
        }
    }
    all
}

/// Whether an entity stores aggregates over other records.
fn holds_sums(desc: &EntityDesc) -> bool {
    desc.field_by_wire("mean").is_some()
}

impl Tolerance {
    fn check_equal(self, expected: &Answer, found: &Answer) -> Result<(), String> {
        let same = expected.status == found.status
            && expected.more == found.more
            && self.same(&expected.text, &found.text);
        // Equal responses with a server error are a failure, too.
        if same && expected.status < 500 {
            return Ok(());
        }
        Err(format!(
            "answers\nmodel: {} {}\nstore: {} {}",
            expected.status, expected.text, found.status, found.text
        ))
    }
}

/// The whole list of an entity, for each actor whose response may differ.
fn views(desc: &'static EntityDesc) -> Vec<(usize, Call)> {
    let has_permission = [&desc.defaults]
        .into_iter()
        .chain(&desc.routes)
        .any(|policy| policy.permission.is_some());
    let by_actor = has_permission
        || desc.tenant.is_some()
        || desc
            .scope
            .iter()
            .any(|s| matches!(s.from, ScopeFrom::Ctx(_)) && s.apply_to.is_none());
    let parents: Vec<Vec<&str>> = match desc.parent_path {
        Some(_) => vec![
            vec!["teams", "1", "documents", "a"],
            vec!["teams", "1", "documents", "b%"],
            vec!["teams", "2", "documents", "a"],
        ],
        None => vec![Vec::new()],
    };
    let mut out = Vec::new();
    for parent in parents {
        let path: Vec<String> = parent
            .iter()
            .copied()
            .chain([desc.path])
            .map(str::to_owned)
            .collect();
        let limit = if desc.paging == Paging::Limit {
            ("limit", "200")
        } else {
            ("pageSize", "100")
        };
        let query = vec![(limit.0.to_owned(), limit.1.to_owned())];
        let call = Call {
            method: "GET".to_owned(),
            path,
            query,
            ..Call::default()
        };
        out.extend((0..if by_actor { ACTORS.len() } else { 1 }).map(|actor| (actor, call.clone())));
    }
    out
}

/// The sequence to report with the first difference.
#[derive(Clone, Copy, PartialEq)]
pub enum Report {
    /// The sequence as it was generated.
    Found,
    /// The shortest sequence that shows the difference, after hundreds of runs.
    Shortest,
}

/// Runs the stored sequences, then `count` random ones, on `per_core` times as many threads as
/// there are cores. `make` returns the store of a thread, and a value that must live as long as the
/// store, such as its folder.
///
/// # Errors
/// The first difference, with the sequence that `report` selects.
pub fn differences<T>(
    count: u64,
    seed: u64,
    stored: &[(String, Vec<Step>)],
    per_core: usize,
    report: Report,
    make: impl Fn() -> (Arc<dyn Store>, T) + Sync,
) -> Result<ResponseCounts, String> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = count + stored.len() as u64;
    let outcome = Mutex::new(Ok(ResponseCounts::new()));
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * per_core;
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (store, _kept) = make();
            let mut pair = Pair::new(store).await;
            while !stop.load(Ordering::SeqCst) {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if n >= total {
                    break;
                }
                let (name, steps) = match stored.get(n as usize) {
                    Some((name, steps)) => (name.clone(), steps.clone()),
                    None => {
                        let seed = seed.wrapping_add(n - stored.len() as u64);
                        (
                            format!("seed {seed}"),
                            generate::sequence(&pair.routes, seed),
                        )
                    }
                };
                let _running = RunningSequence(&name);
                if let Err(first) = pair.run(&steps).await {
                    stop.store(true, Ordering::SeqCst);
                    let (steps, last) = match report {
                        Report::Found => (steps, first),
                        Report::Shortest => shrink::shortest(&mut pair, steps, first).await,
                    };
                    let json = serde_json::to_string_pretty(&steps).expect("JSON");
                    *outcome.lock().expect("no panic") = Err(format!(
                        "{name}: {} steps\n{}\n{json}",
                        steps.len(),
                        last.text
                    ));
                }
            }
            let seen = pair.stop().await;
            if let Ok(all) = &mut *outcome.lock().expect("no panic") {
                for (route, answers) in seen {
                    let seen = all.entry(route).or_default();
                    for (kind, times) in answers {
                        *seen.entry(kind).or_default() += times;
                    }
                }
            }
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(usize::try_from(total).unwrap_or(usize::MAX)) {
            scope.spawn(work);
        }
    });
    outcome.into_inner().expect("no panic")
}

/// Prints the name of the sequence if the thread panics while it runs.
struct RunningSequence<'a>(&'a str);

impl Drop for RunningSequence<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while running {}", self.0);
        }
    }
}
