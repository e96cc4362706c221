//! The snippets of the guide about states, soft deletion and events.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linchpin::event::Batch;
use linchpin::http::{Inputs, OverrideCall};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::testing::Client;
use linchpin::{BoxFuture, EventSink, Route};
use linchpin_auth::Auth;
use serde_json::json;

use super::{Article, PRESS, State};

/// An author.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Author {
    #[field(primary)]
    pub id: String,
    #[field(default = false)]
    pub trusted: bool,
}

/// A note. A deleted note stays in the store.
#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: String,
    #[field(default = State::Draft)]
    pub state: State,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "transition", field = state, from = State::Draft, to = one_of([State::Published, State::Review], by = held))]
pub const SUBMIT: Operation<Note>;

async fn held(call: ChooserCall<Note>) -> linchpin::Result<State> {
    let author = call
        .adapter::<Author>()?
        .get(call.cx(), &*call.record().author_id)
        .await?;
    Ok(if author.is_some_and(|author| author.trusted) {
        State::Published
    } else {
        State::Review
    })
}

#[operation(kind = "restore", route(roles = ["admin"]))]
pub const RESTORE: Operation<Note>;

#[operation(kind = "lookup", fields(), returns = "many", paginate, deleted = "only", route(roles = ["admin"]))]
pub const TRASH: Operation<Note>;

/// A request that waits for a decision.
#[operation(kind = "lookup", filter = (state == State::Review), returns = "many", paginate, route(auth = none))]
pub const WAITING: Operation<Note>;

/// A task with a due time.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Job {
    #[field(primary, default = uuid)]
    pub id: String,
    pub due_at: Timestamp,
    pub lease: Option<Timestamp>,
}

#[operation(
    kind = "batch",
    action = "update",
    filter = (lease.is_none() && due_at <= now()),
    set(lease = now()),
    limit = 5,
    sort = asc(due_at),
    returns = "records",
)]
pub const CLAIM: Operation<Job>;

async fn work(jobs: &JobAdapter, cx: &Cx) -> Result<usize> {
    let mine: Vec<Job> = jobs.claim(cx).await?;
    Ok(mine.len())
}

/// A webhook endpoint with a secret.
#[entity(routes(auth = none, create(output_once(secret: String))))]
#[derive(Clone, Debug)]
pub struct Hook {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub hash: Option<String>,
}

/// Returns the secret once and stores only its hash.
async fn with_secret(call: OverrideCall) -> Result<Outcome> {
    let Inputs::Create(mut draft) = call.inputs else {
        return Err(Error::internal("not a create"));
    };
    let secret = new_secret();
    draft.set(hook::hash, Some(hash_of(&secret)));
    call.cx.answer_once("secret", secret)?;
    Ok(Outcome::Record(
        call.table.create(&call.cx, draft, &call.form).await?.0,
    ))
}

/// A stand-in for a generator of secrets, which the guide does not show.
fn new_secret() -> String {
    Uuid::new_v7().to_string()
}

fn hash_of(secret: &str) -> String {
    format!("{} characters", secret.len())
}

/// A warehouse that records the events it gets.
#[derive(Clone, Default)]
struct Warehouse(Arc<Mutex<Vec<String>>>);

impl EventSink for Warehouse {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        let names = batch.iter().map(|event| event.name.clone());
        self.0.lock().expect("nobody panicked").extend(names);
        Box::pin(async { Ok(()) })
    }
}

fn with_listeners(config: Config, warehouse: Warehouse) -> App {
    App::new(config)
        .on_event::<Article, _, _>("mailer", |event| async move {
            if event.name == "press.articles.created" { /* event.payload, event.key() */ }
            Ok(())
        })
        .on_event::<Note, _, _>("authors", |event| async move {
            let (authors, cx) = (event.adapter::<Author>()?, Cx::system("authors"));
            let id = event.payload["authorId"].as_str().unwrap_or_default();
            // An event may arrive twice. The second time, the author exists already.
            if event.name == "notes.created" && authors.get(&cx, id).await?.is_none() {
                authors
                    .create(
                        &cx,
                        AuthorCreate {
                            id: id.to_owned(),
                            trusted: None,
                        },
                    )
                    .await?;
            }
            Ok(())
        })
        .event_sink("warehouse", warehouse) // every entity, in batches
}

/// An app with a clock that the test advances.
fn at(config: Config, now: Arc<AtomicI64>) -> App {
    App::new(config).clock(move || Timestamp::from_millis(now.load(Ordering::SeqCst)))
}

static OFFICE: Package = package!(
    name = "office",
    entities = [
        entity(Author, []),
        entity(Note, [SUBMIT, RESTORE, TRASH, WAITING]),
        entity(Job, [CLAIM]),
        entity(Hook, [])
    ],
);

fn config() -> Config {
    Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it")
}

/// Adds the plugins and routes of the office to an app.
fn office(app: App) -> App {
    app.plugin(Auth::new().roles(["admin", "editor"]))
        .override_route::<Hook, _, _>(Route::Create, with_secret)
        .package(&OFFICE)
}

#[tokio::test]
async fn deleted_records_can_be_listed_and_restored() -> Result<()> {
    let app = office(App::new(config())).start().await?;
    let (authors, notes) = (app.adapter::<Author>()?, app.adapter::<Note>()?);
    let cx = Cx::actor(Actor::user("ann").with_roles(["admin"]));
    authors
        .create(
            &cx,
            AuthorCreate {
                id: "ann".to_owned(),
                trusted: Some(true),
            },
        )
        .await?;
    let note = |author: &str| NoteCreate {
        author_id: author.to_owned(),
        state: None,
    };
    let (mine, other) = (
        notes.create(&cx, note("ann")).await?,
        notes.create(&cx, note("bob")).await?,
    );

    assert_eq!(notes.submit(&cx, &mine.id).await?.state, State::Published);
    assert_eq!(notes.submit(&cx, &other.id).await?.state, State::Review);
    let waiting = notes.waiting(&cx, PageArgs::default()).await?.items;
    assert_eq!(
        waiting.iter().map(|note| &note.id).collect::<Vec<_>>(),
        [&other.id]
    );

    assert!(
        notes
            .trash(&cx, PageArgs::default())
            .await?
            .items
            .is_empty()
    );
    notes.delete(&cx, &mine.id, None).await?;
    let trash = notes.trash(&cx, PageArgs::default()).await?.items;
    assert_eq!(
        trash.iter().map(|note| &note.id).collect::<Vec<_>>(),
        [&mine.id]
    );
    // Over HTTP, only the declared roles may call it.
    assert_eq!(Client::new(&app).get("/notes/trash").await?.status(), 401);
    notes.restore(&cx, &mine.id).await?;
    assert!(
        notes
            .trash(&cx, PageArgs::default())
            .await?
            .items
            .is_empty()
    );
    app.stop().await
}

#[tokio::test]
async fn jobs_are_claimed_and_secrets_shown_once() -> Result<()> {
    let app = office(App::new(config())).start().await?;
    let (jobs, cx) = (app.adapter::<Job>()?, Cx::system("worker"));
    jobs.create(
        &cx,
        JobCreate {
            due_at: Timestamp::from_millis(0),
            lease: None,
        },
    )
    .await?;
    assert_eq!((work(&jobs, &cx).await?, work(&jobs, &cx).await?), (1, 0));

    let client = Client::new(&app);
    let hook = client.post("/hooks", json!({})).await?.json()?;
    let path = format!("/hooks/{}", hook["id"].as_str().unwrap_or_default());
    assert!(hook["secret"].is_string());
    assert_eq!(
        client.get(&path).await?.json()?,
        json!({ "id": hook["id"] })
    );
    app.stop().await
}

#[tokio::test]
async fn listeners_receive_events() -> Result<()> {
    let warehouse = Warehouse::default();
    let app = office(with_listeners(config(), warehouse.clone()))
        .package(&PRESS)
        .start()
        .await?;
    let job = JobCreate {
        due_at: Timestamp::from_millis(0),
        lease: None,
    };
    let cx = Cx::system("seed");
    app.adapter::<Job>()?.create(&cx, job).await?;
    // A listener can write records of the app.
    app.adapter::<Note>()?
        .create(
            &cx,
            NoteCreate {
                author_id: "carl".to_owned(),
                state: None,
            },
        )
        .await?;
    let authors = app.adapter::<Author>()?;
    let until = Instant::now() + Duration::from_mins(1);
    while authors.get(&cx, "carl").await?.is_none() {
        assert!(Instant::now() < until, "the listener makes an author");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Stopping the app delivers waiting events.
    app.stop().await?;
    let event_names = warehouse.0.lock().expect("nobody panicked");
    assert_eq!(
        event_names
            .iter()
            .filter(|name| *name == "jobs.created")
            .count(),
        1,
        "{event_names:?}"
    );
    Ok(())
}

#[tokio::test]
async fn calls_from_code_are_at_the_instant_of_the_app() -> Result<()> {
    let now = Arc::new(AtomicI64::new(1_000));
    let app = office(at(config(), Arc::clone(&now))).start().await?;
    let (jobs, worker, ann) = (
        app.adapter::<Job>()?,
        Cx::system("worker"),
        Cx::actor(Actor::user("ann")),
    );
    let due = |millis| JobCreate {
        due_at: Timestamp::from_millis(millis),
        lease: None,
    };
    for cx in [&worker, &ann] {
        jobs.create(cx, due(5_000)).await?;
    }
    assert_eq!(
        (work(&jobs, &worker).await?, app.adapters().now().millis()),
        (0, 1_000)
    );

    // The same contexts at a later instant.
    now.store(6_000, Ordering::SeqCst);
    let claimed = jobs.claim(&ann).await?;
    assert_eq!(
        claimed.iter().map(|job| job.lease).collect::<Vec<_>>(),
        [Some(Timestamp::from_millis(6_000)); 2]
    );

    // All calls of a transaction have the same instant. An instant that the caller sets is kept.
    let early = worker.clone().at(Timestamp::from_millis(10));
    let leases = worker
        .transaction(async |cx| {
            jobs.create(cx, due(0)).await?;
            now.store(7_000, Ordering::SeqCst);
            let first = jobs.claim(cx).await?;
            Ok((first[0].lease, cx.now()))
        })
        .await?;
    assert_eq!(
        leases,
        (
            Some(Timestamp::from_millis(6_000)),
            Timestamp::from_millis(6_000)
        )
    );
    jobs.create(&early, due(10)).await?;
    assert_eq!(
        jobs.claim(&early).await?[0].lease,
        Some(Timestamp::from_millis(10))
    );
    app.stop().await
}

/// An id type of the app.
struct AuthorId(&'static str);

impl From<AuthorId> for String {
    fn from(id: AuthorId) -> Self {
        id.0.to_owned()
    }
}

#[tokio::test]
async fn fields_are_compared_with_convertible_values() -> Result<()> {
    let app = office(App::new(config())).start().await?;
    let (jobs, notes, cx) = (
        app.adapter::<Job>()?,
        app.adapter::<Note>()?,
        Cx::system("test"),
    );
    for author in ["ann", "bob"] {
        notes
            .create(
                &cx,
                NoteCreate {
                    author_id: author.to_owned(),
                    state: None,
                },
            )
            .await?;
    }
    let count_notes = async |filter| {
        Ok::<_, Error>(
            notes
                .list(&cx, ListQuery::new().filter(filter))
                .await?
                .items
                .len(),
        )
    };
    assert_eq!(count_notes(note::author_id.eq("ann")).await?, 1);
    assert_eq!(count_notes(note::author_id.eq(AuthorId("bob"))).await?, 1);
    let ann = "ann".to_owned();
    assert_eq!(count_notes(note::author_id.ne(&ann)).await?, 1);
    assert_eq!(
        count_notes(note::author_id.one_of(["ann", "bob"])).await?,
        2
    );
    assert_eq!(
        count_notes(note::author_id.gt("ann").and(note::state.eq(State::Draft))).await?,
        1
    );
    let hour = Timestamp::from_millis(3_600_000);
    for lease in [None, Some(hour)] {
        jobs.create(
            &cx,
            JobCreate {
                due_at: hour,
                lease,
            },
        )
        .await?;
    }
    let count_jobs = async |filter| {
        Ok::<_, Error>(
            jobs.list(&cx, ListQuery::new().filter(filter))
                .await?
                .items
                .len(),
        )
    };
    assert_eq!(
        (
            count_jobs(job::lease.eq(None)).await?,
            count_jobs(job::lease.eq(hour)).await?,
            count_jobs(job::lease.eq(Some(hour))).await?
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (
            count_jobs(job::lease.none_of([hour])).await?,
            count_jobs(job::lease.ne(None)).await?
        ),
        (1, 1)
    );
    app.stop().await
}
