//! Tests an app on the toy store over HTTP.

#![allow(missing_docs)] // test entities

use linchpin::operation::{CustomCall, CustomStore};
use linchpin::prelude::*;
use linchpin::{Running, StartupError};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toy_store::{Toy, ToyProvider};

const SECRET: &str = "only for a test: 32 bytes or more of it";

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Todo,
    Done,
}

/// Something to do.
#[entity(
    unique(title),
    routes(auth = none),
    stores(toy, memory)
)]
#[derive(Clone, Debug)]
pub struct Task {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(default = Status::Todo, filterable)]
    pub status: Status,
    #[field(default = 0, filterable)]
    pub rank: i64,
}

#[operation(kind = "transition", field = status, from = Status::Todo, to = Status::Done)]
pub const FINISH: Operation<Task>;

/// The name of the store and the number of its tasks.
#[derive(Clone, Debug, Embedded)]
pub struct Inventory {
    pub shelf: String,
    pub tasks: i64,
}

#[operation(
    kind = "custom",
    http(method = "GET", path = "inventory"),
    output = Inventory,
    handler(toy = inventory, memory = no_inventory),
)]
pub const INVENTORY: Operation<Task>;

async fn inventory(call: CustomCall<Task, Toy>) -> Result<Inventory> {
    let shelf = call.unguarded("a count reveals no single record")?;
    Ok(Inventory {
        shelf: shelf.name().to_owned(),
        tasks: shelf.len("tasks") as i64,
    })
}

async fn no_inventory(_: MemoryCall<Task>) -> Result<Inventory> {
    Err(Error::internal("this store has no shelf"))
}

#[operation(
    kind = "custom",
    http(method = "GET", path = "urgent"),
    params(least: i64),
    output = Vec<Task>,
    handler(toy = urgent::<Toy>, memory = urgent),
)]
pub const URGENT: Operation<Task>;

/// One function for several stores names its store.
async fn urgent<S: CustomStore>(call: CustomCall<Task, S>, least: i64) -> Result<Vec<String>> {
    let tasks = call.visible().await?.into_iter();
    Ok(tasks
        .filter(|task| task.rank >= least)
        .map(|task| task.id)
        .collect())
}

pub static TASKS: Package = package!(
    name = "tasks",
    entities = [entity(Task, [FINISH, INVENTORY, URGENT])],
);

/// Starts the app with the store of this URL.
async fn start(url: &str) -> Result<Running> {
    let variables = [
        ("LINCHPIN_DATABASE_URL", url),
        ("LINCHPIN_SIGNING_SECRET", SECRET),
        ("LINCHPIN_PORT", "0"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    App::new(Config::from_vars(variables)?)
        .store_provider(ToyProvider)
        .package(&TASKS)
        .start()
        .await
}

/// Sends a request on a new connection. Returns the status and the body.
async fn call(app: &Running, method: &str, path: &str, body: Option<Json>) -> (u16, Json) {
    let mut stream = tokio::net::TcpStream::connect(app.address()).await.unwrap();
    let body = body.map_or_else(String::new, |body| body.to_string());
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn the_store_serves_an_app() {
    let app = start("toy:box").await.unwrap();
    let mut ids = Vec::new();
    for (title, rank) in [("milk", 1), ("taxes", 9), ("a nap", 5)] {
        let task = json!({"title": title, "rank": rank});
        let (status, task) = call(&app, "POST", "/tasks", Some(task)).await;
        assert_eq!((status, &task["status"]), (201, &json!("todo")), "{task}");
        ids.push(format!("/tasks/{}", task["id"].as_str().unwrap()));
    }
    let (status, error) = call(&app, "POST", "/tasks", Some(json!({"title": "milk"}))).await;
    assert_eq!(
        (status, &error["code"]),
        (409, &json!("conflict")),
        "{error}"
    );

    let (status, task) = call(&app, "PATCH", &ids[0], Some(json!({"rank": 3}))).await;
    assert_eq!((status, &task["rank"]), (200, &json!(3)), "{task}");
    let (status, task) = call(&app, "POST", &format!("{}/finish", ids[1]), None).await;
    assert_eq!((status, &task["status"]), (200, &json!("done")), "{task}");
    let (status, _) = call(&app, "POST", &format!("{}/finish", ids[1]), None).await;
    assert_eq!(status, 400);

    let titles = |list: Json| -> Vec<String> {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let title = |item: &Json| item["title"].as_str().unwrap_or_default().to_owned();
        let mut titles: Vec<String> = items.iter().map(title).collect();
        titles.sort();
        titles
    };
    let (_, list) = call(&app, "GET", "/tasks?status=todo", None).await;
    assert_eq!(titles(list), ["a nap", "milk"]);
    let (_, list) = call(&app, "GET", "/tasks?rank[gte]=5", None).await;
    assert_eq!(titles(list), ["a nap", "taxes"]);

    let (status, inventory) = call(&app, "GET", "/tasks/inventory", None).await;
    assert_eq!(
        (status, inventory),
        (200, json!({"shelf": "box", "tasks": 3}))
    );
    let (status, urgent) = call(&app, "GET", "/tasks/urgent?least=5", None).await;
    assert_eq!(
        (status, urgent.as_array().map(Vec::len)),
        (200, Some(2)),
        "{urgent}"
    );

    assert_eq!(call(&app, "DELETE", &ids[2], None).await.0, 204);
    assert_eq!(call(&app, "GET", &ids[2], None).await.0, 404);
    assert_eq!(call(&app, "GET", "/health/ready", None).await.0, 200);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn another_store_runs_the_same_app() {
    let app = start("memory:").await.unwrap();
    let task = json!({"title": "milk", "rank": 7});
    assert_eq!(call(&app, "POST", "/tasks", Some(task)).await.0, 201);
    let (status, urgent) = call(&app, "GET", "/tasks/urgent?least=5", None).await;
    assert_eq!(
        (status, &urgent[0]["title"]),
        (200, &json!("milk")),
        "{urgent}"
    );
    assert_eq!(call(&app, "GET", "/tasks/inventory", None).await.0, 500);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_url_without_a_name_is_refused() {
    let error = start("toy:").await.unwrap_err().to_string();
    assert!(
        error.contains("LINCHPIN_DATABASE_URL: must have a name: `toy:<name>`"),
        "{error}"
    );
}

/// A parent whose deletion also deletes its children, which needs a transaction.
mod refused {
    use super::*;

    #[entity(routes(auth = none))]
    #[derive(Clone, Debug)]
    pub struct List {
        #[field(primary, default = uuid)]
        pub id: String,
    }

    #[entity(belongs_to(list: List, key = list_id, on_delete = "cascade"), routes(auth = none))]
    #[derive(Clone, Debug)]
    pub struct Item {
        #[field(primary, default = uuid)]
        pub id: String,
        pub list_id: String,
        #[field(default = 0)]
        pub rank: i64,
    }

    #[operation(kind = "custom", http(method = "GET"), output = i64, handler(memory = count))]
    pub const COUNT: Operation<Item>;

    async fn count(_: MemoryCall<Item>) -> Result<i64> {
        Ok(0)
    }

    pub static LISTS: Package = package!(
        name = "lists",
        entities = [entity(List), entity(Item, [COUNT])]
    );

    #[tokio::test]
    async fn missing_store_capabilities_are_refused_at_start_up() {
        let config = Config::new()
            .port(0)
            .signing_secret(SECRET)
            .database("toy:box");
        let app = App::new(config).store_provider(ToyProvider).package(&LISTS);
        let error = app.start().await.unwrap_err();
        let Some(StartupError::Capabilities(gaps)) = error.startup() else {
            panic!("{error:?}")
        };
        let missing: Vec<&str> = gaps[0].missing.iter().map(|gap| gap.capability).collect();
        assert_eq!((gaps.len(), gaps[0].entity), (1, "Item"));
        assert_eq!(missing, ["custom.factory", "transaction"]);
        for text in [
            "entity `Item` on store `toy`:",
            "no function for toy (`custom.factory`)",
            "reason: its `handler(..)` names no function for toy",
            "missing `transaction`",
            "required by on_delete of relation `list`",
            "reason: the store `toy` does not grant it",
            "help: use memory",
        ] {
            assert!(
                error.message().contains(text),
                "{text}\n{}",
                error.message()
            );
        }
    }
}
