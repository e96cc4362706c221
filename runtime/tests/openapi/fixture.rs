//! `Post`, declared by descriptors, with transitions, increments, lookups and `exists`.

use std::sync::Arc;

use linchpin::__private::*;
use linchpin::Value;
use linchpin::entity::{EnumDesc, Kind, Paging};
use linchpin::http::{AuthDesc, PolicyDesc};
use linchpin::resource::{CursorKey, Table};
use linchpin::store::memory::Memory;

static STATUS: EnumDesc = EnumDesc {
    name: "Status",
    variants: &["draft", "published", "archived"],
};
static MEMBER: &[FieldDesc] = &[
    FieldDesc::new("id", "id", "id", Kind::String, false),
    FieldDesc::new("name", "name", "name", Kind::String, true),
];

const fn field(name: &'static str, wire: &'static str, kind: Kind, optional: bool) -> FieldDesc {
    FieldDesc::new(name, wire, name, kind, optional)
}

const fn rules(rules: &'static Rules, field: FieldDesc) -> FieldDesc {
    FieldDesc { rules, ..field }
}

const fn flags(flags: Flags, field: FieldDesc) -> FieldDesc {
    FieldDesc { flags, ..field }
}

static FIELDS: [FieldDesc; 20] = [
    FieldDesc {
        default: DefaultDesc::Uuid,
        ..flags(Flags::PRIMARY, field("id", "id", Kind::String, false))
    },
    FieldDesc {
        doc: "The readable part of its address.",
        ..flags(
            Flags::FILTERABLE,
            rules(
                &Rules {
                    format: Some("slug"),
                    ..Rules::NONE
                },
                field("slug", "slug", Kind::String, false),
            ),
        )
    },
    flags(
        Flags::FILTERABLE.or(Flags::SORTABLE),
        rules(
            &Rules {
                length: (Some(1), Some(200)),
                ..Rules::NONE
            },
            field("title", "title", Kind::String, false),
        ),
    ),
    rules(
        &Rules {
            format: Some("email"),
            ..Rules::NONE
        },
        field("email", "email", Kind::String, true),
    ),
    FieldDesc {
        default: DefaultDesc::Literal(|| Value::Text("draft".to_owned())),
        ..flags(
            Flags::FILTERABLE,
            field("status", "status", Kind::Enum(&STATUS), false),
        )
    },
    flags(
        Flags::FILTERABLE,
        field("category", "category", Kind::Enum(&STATUS), true),
    ),
    rules(
        &Rules {
            range: (Some(Bound::Int(0)), Some(Bound::Int(100))),
            ..Rules::NONE
        },
        field("score", "score", Kind::Integer, true),
    ),
    rules(
        &Rules {
            range: (None, Some(Bound::Float(0.5))),
            ..Rules::NONE
        },
        field("ratio", "ratio", Kind::Number, true),
    ),
    rules(
        &Rules {
            items: (None, Some(10)),
            unique_items: true,
            each: Some(&Rules {
                length: (Some(1), Some(64)),
                ..Rules::NONE
            }),
            ..Rules::NONE
        },
        field("tags", "tags", Kind::StringArray, true),
    ),
    field("meta", "meta", Kind::Json, true),
    FieldDesc {
        default: DefaultDesc::Literal(|| Value::Bool(false)),
        ..flags(
            Flags::FILTERABLE,
            field("live", "live", Kind::Boolean, false),
        )
    },
    flags(
        Flags::IMMUTABLE.or(Flags::FILTERABLE),
        field("owner_id", "ownerId", Kind::String, true),
    ),
    flags(
        Flags::PRIVATE,
        field("secret_note", "secretNote", Kind::String, true),
    ),
    FieldDesc {
        default: DefaultDesc::Literal(|| Value::Text("hush-hush".to_owned())),
        ..flags(
            Flags::WRITE_ONLY.or(Flags::SENSITIVE),
            field("pin", "pin", Kind::String, true),
        )
    },
    flags(
        Flags::FILTERABLE.or(Flags::SORTABLE),
        rules(
            &Rules {
                range: (Some(Bound::Int(0)), None),
                ..Rules::NONE
            },
            field("due_at", "dueAt", Kind::Date, true),
        ),
    ),
    rules(
        &Rules {
            pattern: Some("[a-z]+|[0-9]+"),
            ..Rules::NONE
        },
        field("code", "code", Kind::String, true),
    ),
    rules(
        &Rules {
            one_of: &["a", "b"],
            ..Rules::NONE
        },
        field("grade", "grade", Kind::String, true),
    ),
    field("members", "members", Kind::Items(MEMBER), false),
    FieldDesc {
        default: DefaultDesc::Now,
        ..flags(
            Flags::SORTABLE,
            field("created_at", "createdAt", Kind::Date, false),
        )
    },
    version_field("version", "version", "version"),
];

const POST: EntityDesc = EntityDesc {
    name: "Post",
    namespace: Some("blog"),
    path: "posts",
    storage_name: "blog_posts",
    doc: "A blog post.",
    fields: &FIELDS,
    primary: 0,
    indexes: &[],
    uniques: &[UniqueDesc {
        fields: &[1],
        global: false,
    }],
    sort: &[SortDesc {
        field: 18,
        desc: true,
    }],
    pagination: Pagination {
        default_limit: 2,
        max_limit: 3,
        unbounded_lookup: true,
    },
    version: Some(VersionDesc {
        field: 19,
        required_on_write: true,
    }),
    check: None,
    defaults: PolicyDesc {
        auth: Some(AuthDesc::None),
        ..PolicyDesc::INHERIT
    },
    routes: [
        PolicyDesc {
            auth: Some(AuthDesc::Named("userAuth")),
            ..PolicyDesc::INHERIT
        },
        PolicyDesc::INHERIT,
        PolicyDesc::INHERIT,
        PolicyDesc::INHERIT,
        PolicyDesc {
            auth: Some(AuthDesc::Named("userAuth")),
            roles: Some(&["admin"]),
            ..PolicyDesc::INHERIT
        },
    ],
    stores: &[],
    rename_from: &[],
    at: SourceLine {
        file: file!(),
        line: line!(),
    },
    ..EntityDesc::new("", "", "", &[])
};
static BLOG_POST: EntityDesc = POST;
/// Another entity with the same type name.
static NEWS_POST: EntityDesc = EntityDesc {
    namespace: Some("news"),
    path: "news/posts",
    storage_name: "news_posts",
    ..POST
};
/// An entity with the name of the error schema and an integer key.
static ERROR: EntityDesc = EntityDesc {
    name: "Error",
    namespace: None,
    path: "errors",
    storage_name: "errors",
    doc: "",
    fields: &[flags(
        Flags::PRIMARY,
        field("id", "id", Kind::Integer, false),
    )],
    uniques: &[],
    sort: &[SortDesc {
        field: 0,
        desc: false,
    }],
    version: None,
    ..POST
};

static ID: ParamSpec = ParamSpec {
    name: "id",
    field: 0,
    entity: None,
    place: Place::Id,
    required: true,
    nullable: false,
    list: false,
    element: false,
    default: None,
};
static BY_ID: &[AssignSpec] = &[AssignSpec {
    field: 0,
    value: SourceSpec::Param(0),
}];
const OPERATION: OpSpec = OpSpec {
    parts: &[],
    unscoped: None,
    context: &[],
    name: "publish",
    kind: &PUBLISH_KIND,
    params: &[
        ID,
        ParamSpec {
            name: "dueAt",
            field: 14,
            entity: None,
            place: Place::Body,
            required: true,
            nullable: true,
            list: false,
            element: false,
            default: None,
        },
    ],
    routes: &[RouteSpec {
        method: Method::Post,
        segments: &[Seg::Param("id"), Seg::Lit("publish")],
    }],
    policy: PolicyDesc {
        auth: Some(AuthDesc::Named("userAuth")),
        roles: Some(&["editor", "admin"]),
        ..PolicyDesc::INHERIT
    },
    doc: "Publishes.\n\nOnly drafts can be.",
    at: SourceLine {
        file: file!(),
        line: line!(),
    },
};
static PUBLISH_KIND: Transition = Transition::new(
    4,
    &[|| Value::Text("draft".to_owned())],
    &[|| Value::Text("published".to_owned())],
    BY_ID,
)
.set(&[AssignSpec {
    field: 14,
    value: SourceSpec::Param(1),
}]);
static PUBLISH: OpSpec = OPERATION;
static BUMP: OpSpec = OpSpec {
    name: "bump",
    kind: &Increment {
        field: 6,
        by: Bound::Int(1),
        matches: BY_ID,
    },
    params: &[ID],
    routes: &[RouteSpec {
        method: Method::Post,
        segments: &[Seg::Param("id"), Seg::Lit("bump")],
    }],
    ..OPERATION
};
static SLUG: ParamSpec = ParamSpec {
    name: "slug",
    field: 1,
    entity: None,
    place: Place::Segment,
    required: false,
    nullable: false,
    list: false,
    element: false,
    default: None,
};
static OWNER: ParamSpec = ParamSpec {
    name: "owner",
    field: 11,
    entity: None,
    place: Place::Segment,
    required: false,
    nullable: true,
    list: false,
    element: false,
    default: None,
};
static BY_SLUG: OpSpec = OpSpec {
    name: "by_slug",
    kind: &Lookup {
        fields: &[AssignSpec {
            field: 1,
            value: SourceSpec::Param(0),
        }],
        // The filter names a private field. The document must not name it.
        filter: Some(FilterSpec::Cond(
            12,
            Op::Eq,
            OperandSpec::One(SourceSpec::Literal(|| Value::Null)),
        )),
        many: false,
        paginate: false,
        sort: None,
        sorts: &[],
        paging: Paging::Limit,
        limit: None,
        deleted: false,
    },
    params: &[SLUG],
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
    ..OPERATION
};
static BY_OWNER: OpSpec = OpSpec {
    name: "by_owner",
    kind: &Lookup {
        fields: &[AssignSpec {
            field: 11,
            value: SourceSpec::Param(0),
        }],
        filter: Some(FilterSpec::Cond(
            4,
            Op::In,
            OperandSpec::One(SourceSpec::Param(1)),
        )),
        many: true,
        paginate: true,
        sort: None,
        sorts: &[],
        paging: Paging::Limit,
        limit: Some(3),
        deleted: false,
    },
    params: &[
        OWNER,
        ParamSpec {
            name: "states",
            field: 4,
            entity: None,
            place: Place::Query,
            required: true,
            nullable: false,
            list: true,
            element: false,
            default: None,
        },
    ],
    routes: &[
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("by-owner")],
        },
        RouteSpec {
            method: Method::Get,
            segments: &[Seg::Lit("by-owner"), Seg::Param("owner")],
        },
    ],
    policy: PolicyDesc::INHERIT,
    ..OPERATION
};
static SLUG_TAKEN: OpSpec = OpSpec {
    name: "slug_taken",
    kind: &Exists {
        fields: &[AssignSpec {
            field: 1,
            value: SourceSpec::Param(0),
        }],
        check: &[],
    },
    params: &[ParamSpec {
        required: true,
        ..SLUG
    }],
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
    ..OPERATION
};
static FEED: ExtraRouteSpec = ExtraRouteSpec {
    name: "feed",
    route: RouteSpec {
        method: Method::Put,
        segments: &[Seg::Param("slug")],
    },
    policy: PolicyDesc {
        auth: Some(AuthDesc::Named("partner")),
        ..PolicyDesc::INHERIT
    },
    handler: const {
        &((|_| Box::pin(async { axum::response::IntoResponse::into_response(()) }))
            as linchpin::http::ExtraHandler)
    },
    contents: &linchpin::http::Contents::NONE,
    doc: "Feeds.",
    at: SourceLine {
        file: file!(),
        line: line!(),
    },
};

/// The fixture's package.
pub(crate) static PACKAGE: Package = Package {
    version: "1.2.3",
    name: "blog",
    mount: "/",
    entities: &[
        EntityEntry {
            desc: &BLOG_POST,
            operations: &[&PUBLISH, &BUMP, &BY_SLUG, &BY_OWNER, &SLUG_TAKEN],
            routes: &[FEED],
        },
        EntityEntry {
            desc: &NEWS_POST,
            operations: &[&PUBLISH],
            routes: &[],
        },
        EntityEntry {
            desc: &ERROR,
            operations: &[],
            routes: &[],
        },
    ],
    dependencies: &[],
    middleware: &[],
    after_adapters: None,
};

/// The mounted routes of the fixture.
pub(crate) fn endpoints() -> Vec<linchpin::http::Endpoint> {
    linchpin::http::endpoints(&PACKAGE, "/", &adapters())
}

/// The adapters of the fixture, on a new memory store.
pub(crate) fn adapters() -> linchpin::Adapters {
    let store = Arc::new(Memory::new());
    let key = || CursorKey::derive(&["a secret of the fixture, long enough"]);
    let tables = PACKAGE.entities.iter().map(|e| {
        Table::new(e.desc, Arc::clone(&store) as _, key())
            .map(Arc::new)
            .expect("a table")
    });
    linchpin::Adapters::new(tables)
}
