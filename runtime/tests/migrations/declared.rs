//! Generations of one app. All have the table `tasks`.

use linchpin::prelude::*;

/// Declares a generation: a module with the entity `Task` and its package.
macro_rules! generation {
    ($module:ident, [$($option:tt)*], { $($fields:tt)* }) => {
        pub mod $module {
            use linchpin::prelude::*;

            #[entity(storage_name = "tasks", $($option)*)]
            #[derive(Clone, Debug)]
            pub struct Task {
                #[field(primary, default = uuid)]
                pub id: String,
                $($fields)*
            }

            pub static APP: Package = package!(name = "tasks", entities = [entity(Task, [])]);
        }
    };
}

generation!(plain, [], {
    #[field(default = 0)]
    pub views: i64,
    pub size: String,
});
generation!(reordered, [], {
    pub size: String,
    #[field(default = 0)]
    pub views: i64,
});
generation!(validated, [routes(auth = "userAuth", list(auth = none))], {
    /// How often the task was read.
    #[field(default = 0, filterable)]
    pub views: i64,
    /// The size.
    #[field(length = ..=9)]
    pub size: String,
});
generation!(indexed, [index(size)], {
    #[field(default = 0)]
    pub views: i64,
    pub size: String,
});
generation!(noted, [], {
    #[field(default = 0)]
    pub views: i64,
    pub size: String,
    pub note: Option<String>,
});
generation!(renamed, [], {
    #[field(default = 0, rename_from = "views")]
    pub view_count: i64,
    pub size: String,
});
generation!(misspelt, [], {
    #[field(default = 0, rename_from = "veiws")]
    pub view_count: i64,
    pub size: String,
});
generation!(two_names, [], {
    #[field(default = 0)]
    pub views: i64,
    #[field(default = 0)]
    pub view_count: i64,
    pub size: String,
});
generation!(mistaken, [], {
    #[field(default = 0, rename_from = "views")]
    pub view_count: i64,
    #[field(rename_from = "sizes")]
    pub extent: String,
});
generation!(retyped, [], {
    #[field(default = 0)]
    pub views: i64,
    #[field(rename_from = "size")]
    pub bytes: i64,
});
generation!(owned, [], {
    #[field(default = 0)]
    pub views: i64,
    pub size: String,
    pub owner: String,
});

// Generations with public routes.
generation!(served, [routes(auth = none)], {
    #[field(default = 0)]
    pub views: i64,
    pub size: String,
});
generation!(served_noted, [routes(auth = none)], {
    #[field(default = 0)]
    pub views: i64,
    pub size: String,
    pub note: Option<String>,
});
generation!(served_dropped, [routes(auth = none)], {
    #[field(default = 0)]
    pub views: i64,
});
generation!(served_forgotten, [routes(auth = none)], {
    #[field(default = 0)]
    pub view_count: i64,
    pub size: String,
});
generation!(served_renamed, [routes(auth = none)], {
    #[field(default = 0, rename_from = "views")]
    pub view_count: i64,
    pub size: String,
});

generation!(served_changed, [routes(auth = none)], {
    #[field(default = 0)]
    pub views: i64,
    pub note: Option<String>,
});

/// A custom operation whose SQL names a renamed column, and one whose SQL follows the rename.
pub mod own_sql {
    use linchpin::prelude::*;

    #[entity(storage_name = "tasks", routes(auth = none))]
    #[derive(Clone, Debug)]
    pub struct Task {
        #[field(primary, default = uuid)]
        pub id: String,
        #[field(default = 0, rename_from = "views")]
        pub view_count: i64,
        pub size: String,
    }

    const PLAIN: &str = "view_count > 10";

    #[operation(
        kind = "custom",
        http(method = "GET"),
        output = Vec<Task>,
        handler(sqlite = popular, postgres = popular),
        sql(PLAIN),
    )]
    pub const POPULAR: Operation<Task>;

    #[allow(clippy::unused_async)] // handlers are async
    async fn popular<S: SqlStore>(call: CustomCall<Task, S>) -> Result<Records<Task>> {
        Ok(call.records(PLAIN))
    }

    const FOLLOWING: &str = "{column:view_count} > 10";

    #[operation(
        kind = "custom",
        http(method = "GET"),
        output = Vec<Task>,
        handler(sqlite = often, postgres = often),
        sql(FOLLOWING),
    )]
    pub const OFTEN: Operation<Task>;

    #[allow(clippy::unused_async)] // handlers are async
    async fn often<S: SqlStore>(call: CustomCall<Task, S>) -> Result<Records<Task>> {
        Ok(call.records(FOLLOWING))
    }

    pub static PLAIN_SQL: Package =
        package!(name = "tasks", entities = [entity(Task, [POPULAR, OFTEN])]);
    pub static FOLLOWING_SQL: Package =
        package!(name = "tasks", entities = [entity(Task, [OFTEN])]);
}

/// Two entities with the same former table name.
pub mod claimed {
    use linchpin::prelude::*;

    #[entity(storage_name = "items", rename_from = "tasks")]
    #[derive(Clone, Debug)]
    pub struct Item {
        #[field(primary, default = uuid)]
        pub id: String,
    }

    #[entity(storage_name = "things", rename_from = "tasks")]
    #[derive(Clone, Debug)]
    pub struct Thing {
        #[field(primary, default = uuid)]
        pub id: String,
    }

    pub static APP: Package = package!(
        name = "tasks",
        entities = [entity(Item, []), entity(Thing, [])]
    );
}

/// The package of a generation.
pub fn generation(name: &str) -> &'static Package {
    match name {
        "plain" => &plain::APP,
        "reordered" => &reordered::APP,
        "validated" => &validated::APP,
        "indexed" => &indexed::APP,
        "noted" => &noted::APP,
        "renamed" => &renamed::APP,
        "misspelt" => &misspelt::APP,
        "two_names" => &two_names::APP,
        "mistaken" => &mistaken::APP,
        "claimed" => &claimed::APP,
        "retyped" => &retyped::APP,
        "owned" => &owned::APP,
        "served" => &served::APP,
        "served_noted" => &served_noted::APP,
        "served_dropped" => &served_dropped::APP,
        "served_forgotten" => &served_forgotten::APP,
        "served_renamed" => &served_renamed::APP,
        "served_changed" => &served_changed::APP,
        "plain_sql" => &own_sql::PLAIN_SQL,
        "following_sql" => &own_sql::FOLLOWING_SQL,
        other => panic!("no generation `{other}`"),
    }
}
