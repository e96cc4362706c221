//! The entity `Task` in each former version of the app.

use linchpin::prelude::*;

/// Declares a version: a module with the enum `State`, the entity `Task` and the package. The
/// versions with a computed field do not use this macro.
macro_rules! version {
    (
        $module:ident, [$($option:tt)*], [$($state:ident),+], { $($fields:tt)* }
    ) => {
        mod $module {
            use linchpin::prelude::*;

            #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
            pub enum State {
                $($state),+
            }

            #[entity(
                namespace = "board",
                scope(owner_id = ctx(actor.id)),
                version(required_on_write = false),
                sort = asc(created_at),
                $($option)*
            )]
            #[derive(Clone, Debug)]
            pub struct Task {
                #[field(primary, default = uuid)]
                pub id: String,
                pub owner_id: String,
                #[field(default = State::Open)]
                pub state: State,
                #[field(default = now)]
                pub created_at: Timestamp,
                pub due_at: Option<Timestamp>,
                $($fields)*
            }

            pub static BOARD: Package = package!(name = "board", entities = [entity(Task, [])]);
        }
    };
}

version!(v1, [], [Open, Done, Cancelled], {
    pub name: String,
    pub tag: String,
    pub notes: Option<String>,
});
version!(v2, [], [Open, Done, Cancelled], {
    #[field(rename_from = "name")]
    pub title: String,
    pub tag: String,
    pub notes: Option<String>,
});
version!(v3, [], [Open, Done, Cancelled], {
    pub title: String,
    #[field(rename_from = "tag", transform = linchpin::transforms::string_to_string_array)]
    pub tags: Vec<String>,
    pub notes: Option<String>,
});
version!(v4, [], [Open, Done, Cancelled], {
    pub title: String,
    pub tags: Vec<String>,
    pub notes: Option<String>,
    pub done_at: Option<Timestamp>,
    #[field(default = 3)]
    pub priority: i64,
});
version!(v5, [unique(owner_id, title)], [Open, Done, Cancelled], {
    pub title: String,
    pub tags: Vec<String>,
    pub notes: Option<String>,
    pub done_at: Option<Timestamp>,
    #[field(default = 3)]
    pub priority: i64,
});
version!(v6, [unique(owner_id, title)], [Open, Doing, Blocked, Done, Cancelled], {
    pub title: String,
    pub tags: Vec<String>,
    pub notes: Option<String>,
    pub done_at: Option<Timestamp>,
    #[field(default = 3)]
    pub priority: i64,
});
version!(v7, [unique(owner_id, title)], [Open, Doing, Blocked, Done], {
    pub title: String,
    pub tags: Vec<String>,
    pub notes: Option<String>,
    pub done_at: Option<Timestamp>,
    #[field(default = 3)]
    pub priority: i64,
});
version!(v8, [unique(owner_id, title)], [Open, Doing, Blocked, Done], {
    pub title: String,
    pub tags: Vec<String>,
    pub done_at: Option<Timestamp>,
    #[field(default = 3)]
    pub priority: i64,
});

mod v9 {
    use linchpin::prelude::*;

    #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
    pub enum State {
        Open,
        Doing,
        Blocked,
        Done,
    }

    #[entity(
        namespace = "board",
        scope(owner_id = ctx(actor.id)),
        version(required_on_write = false),
        sort = asc(created_at),
        unique(owner_id, title),
    )]
    #[derive(Clone, Debug)]
    pub struct Task {
        #[field(primary, default = uuid)]
        pub id: String,
        pub owner_id: String,
        #[field(default = State::Open)]
        pub state: State,
        #[field(default = now)]
        pub created_at: Timestamp,
        pub due_at: Option<Timestamp>,
        pub title: String,
        pub tags: Vec<String>,
        pub done_at: Option<Timestamp>,
        #[field(default = 3)]
        pub priority: i64,
        #[field(computed = title_key)]
        pub title_key: String,
    }

    #[computed]
    fn title_key(task: &Task) -> String {
        task.title.to_lowercase()
    }

    pub static BOARD: Package = package!(name = "board", entities = [entity(Task, [])]);
}

mod v10 {
    use linchpin::prelude::*;

    #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
    pub enum State {
        Open,
        Doing,
        Blocked,
        Done,
    }

    #[entity(
        namespace = "board",
        scope(owner_id = ctx(actor.id)),
        version(required_on_write = false),
        sort = asc(created_at),
        unique(owner_id, title),
    )]
    #[derive(Clone, Debug)]
    pub struct Task {
        #[field(primary, default = uuid)]
        pub id: String,
        pub owner_id: String,
        #[field(default = State::Open)]
        pub state: State,
        #[field(default = now)]
        pub created_at: Timestamp,
        pub due_at: Option<Timestamp>,
        pub title: String,
        pub tags: Vec<String>,
        pub done_at: Option<Timestamp>,
        #[field(default = 3)]
        pub priority: i64,
        #[field(computed = title_key)]
        pub title_key: String,
    }

    #[computed]
    fn title_key(task: &Task) -> String {
        task.title.trim().to_lowercase()
    }

    pub static BOARD: Package = package!(name = "board", entities = [entity(Task, [])]);
}

/// The package of a version.
pub fn board(version: &str) -> Option<&'static Package> {
    Some(match version {
        "1" => &v1::BOARD,
        "2" => &v2::BOARD,
        "3" => &v3::BOARD,
        "4" => &v4::BOARD,
        "5" => &v5::BOARD,
        "6" => &v6::BOARD,
        "7" => &v7::BOARD,
        "8" => &v8::BOARD,
        "9" => &v9::BOARD,
        "10" => &v10::BOARD,
        _ => return None,
    })
}
