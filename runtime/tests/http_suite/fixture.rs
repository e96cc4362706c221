//! A small blog, declared without macros, and an app with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use linchpin::entity::{
    DefaultDesc, EntityDesc, EnumDesc, FieldDesc, Flags, IndexDesc, Kind, Pagination, Paging,
    Rules, SortDesc, SourceLine, UniqueDesc, VersionDesc,
};
use linchpin::filter::SourceSpec;
use linchpin::http::{AuthDesc, Endpoint, HttpService, HttpState, PolicyDesc, endpoints, service};
use linchpin::operation::{
    AssignSpec, Exists, Lookup, Method, OpSpec, ParamSpec, Place, RouteSpec, Seg, Transition,
};
use linchpin::resource::{CursorKey, Table};
use linchpin::store::Store;
use linchpin::store::create_tables;
use linchpin::store::memory::Memory;
use linchpin::{Adapters, EntityEntry, Package, Value};
use serde_json::Value as Json;
use tower_service::Service;

pub const PUBLIC: PolicyDesc = PolicyDesc {
    auth: Some(AuthDesc::None),
    ..PolicyDesc::INHERIT
};
const AT: SourceLine = SourceLine {
    file: "tests/fixture.rs",
    line: 1,
};

static STATUS: EnumDesc = EnumDesc {
    name: "Status",
    variants: &["draft", "published"],
};

const fn text(name: &'static str) -> FieldDesc {
    FieldDesc::new(name, name, name, Kind::String, false)
}

pub static POST: EntityDesc = EntityDesc {
    name: "Post",
    namespace: Some("blog"),
    path: "posts",
    storage_name: "blog_posts",
    doc: "",
    fields: &[
        FieldDesc {
            default: DefaultDesc::Uuid,
            flags: Flags::PRIMARY.or(Flags::FILTERABLE).or(Flags::SORTABLE),
            ..text("id")
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            ..text("slug")
        },
        FieldDesc {
            flags: Flags::FILTERABLE.or(Flags::SORTABLE),
            rules: &Rules {
                length: (Some(1), Some(20)),
                ..Rules::NONE
            },
            ..text("title")
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            default: DefaultDesc::Literal(|| Value::Text("draft".into())),
            ..FieldDesc::new("status", "status", "status", Kind::Enum(&STATUS), false)
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            optional: true,
            ..text("category")
        },
        FieldDesc {
            flags: Flags::FILTERABLE.or(Flags::SORTABLE),
            default: DefaultDesc::Literal(|| Value::Int(0)),
            ..FieldDesc::new("score", "score", "score", Kind::Integer, false)
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            default: DefaultDesc::Literal(|| Value::Bool(false)),
            ..FieldDesc::new("live", "live", "live", Kind::Boolean, false)
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            ..FieldDesc::new("tags", "tags", "tags", Kind::StringArray, true)
        },
        FieldDesc::new("meta", "meta", "meta", Kind::Json, true),
        FieldDesc {
            flags: Flags::PRIVATE,
            optional: true,
            ..text("secret")
        },
        FieldDesc {
            flags: Flags::WRITE_ONLY,
            optional: true,
            ..text("pin")
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            ..FieldDesc::new("due_at", "dueAt", "due_at", Kind::Date, true)
        },
        FieldDesc {
            default: DefaultDesc::Now,
            flags: Flags::FILTERABLE,
            ..FieldDesc::new("created_at", "createdAt", "created_at", Kind::Date, false)
        },
    ],
    primary: 0,
    indexes: &[IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: 2,
            desc: false,
        }],
    }],
    uniques: &[UniqueDesc {
        fields: &[1],
        global: false,
    }],
    sort: &[SortDesc {
        field: 1,
        desc: false,
    }],
    pagination: Pagination {
        default_limit: 2,
        max_limit: 3,
        unbounded_lookup: true,
    },
    version: None,
    check: None,
    defaults: PUBLIC,
    routes: [PolicyDesc::INHERIT; 5],
    stores: &[],
    rename_from: &[],
    at: AT,
    ..EntityDesc::new("", "", "", &[])
};

/// A note with a version and a key that the client chooses. Only its `get` route is public.
pub static NOTE: EntityDesc = EntityDesc {
    name: "Note",
    namespace: None,
    path: "notes",
    storage_name: "notes",
    fields: &[
        FieldDesc {
            flags: Flags::PRIMARY,
            ..text("id")
        },
        text("text"),
        FieldDesc {
            flags: Flags::VERSION,
            ..FieldDesc::new("version", "version", "version", Kind::Integer, false)
        },
    ],
    primary: 0,
    indexes: &[],
    uniques: &[],
    sort: &[SortDesc {
        field: 0,
        desc: false,
    }],
    version: Some(VersionDesc {
        field: 2,
        required_on_write: true,
    }),
    defaults: PolicyDesc::INHERIT,
    routes: [
        PolicyDesc {
            max_body: Some(64),
            ..PolicyDesc::INHERIT
        },
        PolicyDesc::INHERIT,
        PUBLIC,
        PolicyDesc {
            auth: Some(AuthDesc::Named("editor")),
            ..PolicyDesc::INHERIT
        },
        PolicyDesc {
            roles: Some(&["admin"]),
            ..PolicyDesc::INHERIT
        },
    ],
    ..EntityDesc {
        pagination: Pagination::DEFAULT,
        ..POST_BASE
    }
};

// The defaults of `NOTE`.
const POST_BASE: EntityDesc = EntityDesc {
    name: "",
    namespace: None,
    path: "",
    storage_name: "",
    doc: "",
    fields: &[],
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
    defaults: PolicyDesc::INHERIT,
    routes: [PolicyDesc::INHERIT; 5],
    stores: &[],
    rename_from: &[],
    at: AT,
    ..EntityDesc::new("", "", "", &[])
};

const fn param(name: &'static str, field: usize, place: Place) -> ParamSpec {
    ParamSpec {
        name,
        field,
        entity: None,
        place,
        required: true,
        nullable: false,
        list: false,
        element: false,
        default: None,
    }
}

static BY_SLUG: OpSpec = OpSpec {
    parts: &[],
    unscoped: None,
    context: &[],
    name: "by_slug",
    kind: &Lookup {
        fields: &[AssignSpec {
            field: 1,
            value: SourceSpec::Param(0),
        }],
        filter: None,
        many: false,
        paginate: false,
        sort: None,
        sorts: &[],
        paging: Paging::Limit,
        limit: None,
        deleted: false,
    },
    params: &[ParamSpec {
        required: false,
        ..param("slug", 1, Place::Segment)
    }],
    routes: &[
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("by-slug")],
        },
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("by-slug"), Seg::Param("slug")],
        },
    ],
    policy: PolicyDesc::INHERIT,
    doc: "",
    at: AT,
};

static BY_CATEGORY: OpSpec = OpSpec {
    parts: &[],
    unscoped: None,
    context: &[],
    name: "by_category",
    kind: &Lookup {
        fields: &[
            AssignSpec {
                field: 4,
                value: SourceSpec::Param(0),
            },
            AssignSpec {
                field: 5,
                value: SourceSpec::Param(1),
            },
        ],
        filter: None,
        many: true,
        paginate: true,
        sort: None,
        sorts: &[],
        paging: Paging::Limit,
        limit: None,
        deleted: false,
    },
    params: &[
        ParamSpec {
            required: false,
            nullable: true,
            ..param("category", 4, Place::Segment)
        },
        ParamSpec {
            required: false,
            ..param("score", 5, Place::Segment)
        },
    ],
    routes: &[
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("by-category")],
        },
        RouteSpec {
            method: Method::Get,
            segments: &[
                Seg::Lit("by-category"),
                Seg::Param("category"),
                Seg::Param("score"),
            ],
        },
    ],
    policy: PolicyDesc::INHERIT,
    doc: "",
    at: AT,
};

static SLUG_TAKEN: OpSpec = OpSpec {
    parts: &[],
    unscoped: None,
    context: &[],
    name: "slug_taken",
    kind: &Exists {
        fields: &[AssignSpec {
            field: 1,
            value: SourceSpec::Param(0),
        }],
        check: &[],
    },
    params: &[param("slug", 1, Place::Segment)],
    routes: &[
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("slug-taken")],
        },
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("slug-taken"), Seg::Param("slug")],
        },
    ],
    policy: PolicyDesc::INHERIT,
    doc: "",
    at: AT,
};

static PUBLISH: OpSpec = OpSpec {
    parts: &[],
    unscoped: None,
    context: &[],
    name: "publish",
    kind: &Transition::new(
        3,
        &[|| Value::Text("draft".into())],
        &[|| Value::Text("published".into())],
        &[AssignSpec {
            field: 0,
            value: SourceSpec::Param(0),
        }],
    )
    .set(&[AssignSpec {
        field: 4,
        value: SourceSpec::Param(1),
    }]),
    params: &[
        param("id", 0, Place::Id),
        ParamSpec {
            required: false,
            nullable: true,
            ..param("category", 4, Place::Body)
        },
    ],
    routes: &[RouteSpec {
        method: Method::Post,
        segments: &[Seg::Param("id"), Seg::Lit("publish")],
    }],
    policy: PolicyDesc::INHERIT,
    doc: "",
    at: AT,
};

static RETIRE: OpSpec = OpSpec {
    parts: &[],
    unscoped: None,
    context: &[],
    name: "retire",
    kind: &Transition::new(
        3,
        &[|| Value::Text("published".into())],
        &[|| Value::Text("draft".into())],
        &[AssignSpec {
            field: 0,
            value: SourceSpec::Param(0),
        }],
    )
    .boolean(),
    params: &[param("id", 0, Place::Id)],
    routes: &[RouteSpec {
        method: Method::Post,
        segments: &[Seg::Param("id"), Seg::Lit("retire")],
    }],
    policy: PolicyDesc::INHERIT,
    doc: "",
    at: AT,
};

pub static BLOG: Package = Package {
    version: "1.2.3",
    name: "blog",
    mount: "/",
    entities: &[
        EntityEntry {
            desc: &POST,
            operations: &[&BY_SLUG, &BY_CATEGORY, &SLUG_TAKEN, &PUBLISH, &RETIRE],
            routes: &[crate::extra::EXPORT, crate::extra::FAIL],
        },
        EntityEntry {
            desc: &NOTE,
            operations: &[],
            routes: &[],
        },
    ],
    dependencies: &[],
    middleware: &[],
    after_adapters: None,
};

/// A store and its folder.
pub type Fresh = (Arc<dyn Store>, Option<tempfile::TempDir>);

/// A new store in memory.
#[allow(dead_code)] // one of the two suites uses it
pub fn memory() -> Fresh {
    (Arc::new(Memory::new()), None)
}

/// A new store in a file.
#[cfg(feature = "sqlite")]
#[allow(dead_code)] // one of the two suites uses it
pub fn sqlite() -> Fresh {
    let folder = tempfile::tempdir().unwrap();
    let options = linchpin::store::sqlite::SqliteOptions::new(folder.path().join("blog.db"));
    (
        Arc::new(linchpin::store::sqlite::SqliteStore::open(options).unwrap()),
        Some(folder),
    )
}

/// The adapters of the blog on a store.
pub async fn adapters(store: &Arc<dyn Store>) -> Adapters {
    create_tables(&**store, &[&POST, &NOTE]).await.unwrap();
    let key = CursorKey::derive(&["a secret of at least thirty-two bytes"]);
    let tables = [&POST, &NOTE]
        .map(|desc| Arc::new(Table::new(desc, Arc::clone(store), key.clone()).unwrap()));
    Adapters::new(tables)
}

pub struct App {
    pub service: HttpService,
    /// The folder of the store, which is removed with the app.
    _folder: Option<tempfile::TempDir>,
}

/// The blog, mounted at the root.
pub async fn blog() -> App {
    blog_with(|_, _| {}).await
}

/// The blog with changes to its endpoints and state.
pub async fn blog_with(change: impl FnOnce(&mut Vec<Endpoint>, &mut HttpState)) -> App {
    App::over(crate::fresh(), change).await
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// The status; for an error also its code, and ` path=code` for each detail.
    #[track_caller]
    pub fn summary(&self) -> String {
        if self.status.is_success() || self.body.is_empty() {
            return self.status.as_u16().to_string();
        }
        let body = self.json();
        let mut text = format!(
            "{} {}",
            self.status.as_u16(),
            body["code"].as_str().unwrap()
        );
        for detail in body["details"].as_array().into_iter().flatten() {
            text += &format!(
                " {}={}",
                detail["path"].as_str().unwrap(),
                detail["code"].as_str().unwrap()
            );
        }
        text
    }
}

impl App {
    /// The blog on a store, with changes to its endpoints and state.
    pub async fn over(
        (store, folder): Fresh,
        change: impl FnOnce(&mut Vec<Endpoint>, &mut HttpState),
    ) -> Self {
        let adapters = adapters(&store).await;
        let mut mounted = endpoints(&BLOG, BLOG.mount, &adapters);
        let mut state = HttpState::new(adapters);
        state.resolver = Some(Arc::new(crate::policy::Headers));
        state.auth.named = BTreeMap::from([("editor".to_owned(), crate::policy::editor().into())]);
        change(&mut mounted, &mut state);
        Self {
            service: service(mounted, state).unwrap(),
            _folder: folder,
        }
    }

    pub async fn request(&self, request: Request<Body>) -> Answer {
        let Ok(response) = self.service.clone().call(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.request(request.body(body.into()).unwrap()).await
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, &[], Body::empty()).await
    }

    /// Sends a request with a JSON body.
    pub async fn json(&self, method: &str, uri: &str, body: Json) -> Answer {
        self.send(
            method,
            uri,
            &[("content-type", "application/json")],
            body.to_string(),
        )
        .await
    }

    /// Creates a post with this slug as its slug and title, and with further members. Returns it.
    pub async fn post(&self, slug: &str, more: Json) -> Json {
        let mut body = serde_json::json!({ "slug": slug, "title": slug });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = self.json("POST", "/posts", body).await;
        assert_eq!(answer.status, 201, "{}", answer.summary());
        answer.json()
    }
}

/// The slugs of a page.
#[track_caller]
pub fn slugs(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.summary());
    answer.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["slug"].as_str().unwrap().to_owned())
        .collect()
}
