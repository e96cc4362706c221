//! Packages without macros, a plugin that records the calls of its methods, and a client that
//! returns raw responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::entity::{
    DefaultDesc, EntityDesc, FieldDesc, Flags, Kind, Pagination, SortDesc, SourceLine,
};
use linchpin::http::{AuthDesc, PolicyDesc};
use linchpin::{
    App, BoxFuture, Config, EntityEntry, Error, MiddlewareCx, Package, Plugin, PostCx, Result,
    RoutesCx,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const PUBLIC: PolicyDesc = PolicyDesc {
    auth: Some(AuthDesc::None),
    ..PolicyDesc::INHERIT
};

const TEXT: FieldDesc = FieldDesc::new("text", "text", "text", Kind::String, false);

pub const NOTE_BASE: EntityDesc = EntityDesc {
    name: "Note",
    namespace: None,
    path: "notes",
    storage_name: "notes",
    doc: "",
    fields: &[
        FieldDesc {
            default: DefaultDesc::Uuid,
            flags: Flags::PRIMARY,
            ..FieldDesc::new("id", "id", "id", Kind::String, false)
        },
        TEXT,
    ],
    primary: 0,
    indexes: &[],
    uniques: &[],
    sort: &[SortDesc {
        field: 0,
        desc: false,
    }],
    pagination: Pagination::DEFAULT,
    version: None,
    check: None,
    defaults: PUBLIC,
    routes: [PolicyDesc::INHERIT; 5],
    stores: &[],
    rename_from: &[],
    at: SourceLine {
        file: "src/note.rs",
        line: 3,
    },
    ..EntityDesc::new("", "", "", &[])
};

/// A public entity.
pub static NOTE: EntityDesc = NOTE_BASE;
/// An entity whose `delete` route requires a role; all other routes require a user.
pub static SECRET: EntityDesc = EntityDesc {
    name: "Secret",
    path: "secrets",
    storage_name: "secrets",
    defaults: PolicyDesc::INHERIT,
    routes: [
        PolicyDesc::INHERIT,
        PolicyDesc::INHERIT,
        PolicyDesc::INHERIT,
        PolicyDesc::INHERIT,
        PolicyDesc {
            roles: Some(&["admin"]),
            ..PolicyDesc::INHERIT
        },
    ],
    ..NOTE_BASE
};
/// An entity with the paths of `Note` and another table.
pub static TWIN: EntityDesc = EntityDesc {
    name: "Twin",
    storage_name: "twins",
    at: SourceLine {
        file: "src/twin.rs",
        line: 9,
    },
    ..NOTE_BASE
};

pub const fn package(name: &'static str, entities: &'static [EntityEntry]) -> Package {
    Package {
        name,
        version: "1.2.3",
        mount: "/",
        entities,
        dependencies: &[],
        middleware: &[],
        after_adapters: None,
    }
}

pub static NOTES: Package = package(
    "notes",
    &[EntityEntry {
        desc: &NOTE,
        operations: &[],
        routes: &[],
    }],
);
pub static SECRETS: Package = package(
    "secrets",
    &[EntityEntry {
        desc: &SECRET,
        operations: &[],
        routes: &[],
    }],
);
pub static TWINS: Package = package(
    "twins",
    &[EntityEntry {
        desc: &TWIN,
        operations: &[],
        routes: &[],
    }],
);

pub const KEY: &str = "a signing secret for tests of at least 32 bytes";

/// A configuration with a free port and a store in memory.
pub fn config() -> Config {
    Config::new()
        .port(0)
        .database("memory:")
        .signing_secret(KEY)
}

/// The message of a start-up error.
#[track_caller]
pub fn refused(result: Result<linchpin::Running>) -> String {
    match result {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    }
}

/// The recorded steps, in order.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    /// All steps since the last read.
    pub fn read(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

/// A plugin that records the calls of its methods, and fails at a given step.
pub struct Recorder {
    pub name: &'static str,
    pub needs: &'static [&'static str],
    pub fails_in: &'static str,
    pub diary: Diary,
}

impl Recorder {
    pub fn new(name: &'static str, needs: &'static [&'static str], diary: &Diary) -> Self {
        Self {
            name,
            needs,
            fails_in: "",
            diary: diary.clone(),
        }
    }

    pub fn failing(self, step: &'static str) -> Self {
        Self {
            fails_in: step,
            ..self
        }
    }

    fn step(&self, step: &str) -> BoxFuture<'static, Result<()>> {
        self.diary.note(format!("{}.{step}", self.name));
        let failed = step == self.fails_in;
        Box::pin(async move {
            if failed {
                Err(Error::internal("it would not"))
            } else {
                Ok(())
            }
        })
    }
}

impl Plugin for Recorder {
    fn name(&self) -> &str {
        self.name
    }

    fn dependencies(&self) -> &[&str] {
        self.needs
    }

    fn setup_middleware<'a>(&'a self, _: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        self.step("middleware")
    }

    fn setup_routes<'a>(&'a self, _: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        self.step("routes")
    }

    fn setup_post<'a>(&'a self, _: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        self.step("post")
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        self.step("teardown")
    }
}

/// A plugin that only adds routes.
pub struct Routes<F>(pub F);

impl<F: Fn(&mut RoutesCx) + Send + Sync + 'static> Plugin for Routes<F> {
    fn name(&self) -> &'static str {
        "routes-of-tests"
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            (self.0)(cx);
            Ok(())
        })
    }
}

pub fn notes() -> App {
    App::new(config()).package(&NOTES)
}

/// Sends a request on a new connection, and returns everything that the server sends.
pub async fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    rest(&mut stream).await
}

pub async fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    exchange(address, "GET", path, headers, "").await
}

pub const JSON: &str = "content-type: application/json\r\n";

/// Reads until the server closes the connection.
pub async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_mins(1), stream.read_to_end(&mut answer))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(answer).unwrap()
}

/// The status of a response, such as `200`.
#[track_caller]
pub fn status(answer: &str) -> &str {
    answer
        .strip_prefix("HTTP/1.1 ")
        .and_then(|a| a.get(..3))
        .unwrap_or_else(|| panic!("no answer: {answer:?}"))
}
