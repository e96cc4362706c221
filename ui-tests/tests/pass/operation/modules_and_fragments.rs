//! Entities in other modules than their operations, names that are keywords, and declarations
//! inside a `macro_rules!`.
#![deny(warnings)]
#![allow(dead_code)] // it compiles: that is the test
use linchpin::prelude::*;

/// A module as in a separate file.
mod note {
    use linchpin::prelude::*;

    // Enums with the names of JSON types.
    #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
    pub enum Value {
        Draft,
        Live,
        Gone,
    }

    #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
    pub enum Json {
        Yes,
        No,
    }

    #[derive(Embedded, Clone, Debug)]
    pub struct Step {
        #[field(primary)]
        pub id: String,
        pub r#gen: i64,
    }

    #[entity(unique(slug), index(value), sort = asc(value), soft_delete(deleted_at), routes(auth = none))]
    #[derive(Clone, Debug)]
    pub struct Note {
        #[field(primary, default = uuid)]
        pub id: String,
        pub slug: String,
        pub owner_id: String,
        #[field(default = Value::Draft, filterable)]
        pub value: Value,
        #[field(default = Json::No)]
        pub json: Json,
        #[field(default = 0)]
        pub views: i64,
        pub tags: Vec<String>,
        pub steps: Vec<Step>,
        pub due_at: Option<Timestamp>,
        pub deleted_at: Option<Timestamp>,
    }
}

mod operations {
    use linchpin::prelude::*;

    // Of the generated items, only the adapter is imported.
    use super::note::{Note, NoteAdapter, Value};

    #[operation(kind = "lookup", fields(slug = param(slug), value = param(value)), filter = (value != Value::Live), returns = "many")]
    pub const FIND: Operation<Note>;
    #[operation(kind = "exists", fields(slug = param(slug)))]
    pub const TAKEN: Operation<Note>;
    #[operation(kind = "transition", field = value, from = Value::Draft, to = Value::Live)]
    pub const PUBLISH: Operation<Note>;
    #[operation(kind = "transition", field = value, from = Value::Draft, to = one_of([Value::Live, Value::Gone], by = chosen))]
    pub const CHOOSE: Operation<Note>;
    #[operation(kind = "increment", field = views)]
    pub const READ: Operation<Note>;
    #[operation(kind = "field_update", set(slug, value, due_at), partial)]
    pub const CHANGE: Operation<Note>;
    #[operation(kind = "array_push", field = tags, value = param(tag))]
    pub const TAG: Operation<Note>;
    #[operation(kind = "upsert", match(slug), set(owner_id, value))]
    pub const IMPORT: Operation<Note>;
    #[operation(kind = "batch", action = "update", filter = (due_at < now() && value.one_of([Value::Draft])), set(value = Value::Live))]
    pub const SWEEP: Operation<Note>;
    #[operation(kind = "collection", field = steps, operations(list, add, remove))]
    pub const STEPS: Operation<Note>;
    #[operation(kind = "aggregate", group_by = value, compute(total = count(), seen = sum(views), newest = max(due_at)))]
    pub const STATS: Operation<Note>;
    #[operation(kind = "derive", source(Note, where = (owner_id == param(owner_id))), merge = "union")]
    pub const OWN: Operation<Note>;
    #[operation(kind = "computed_aggregate", source = Note, source_filter = (owner_id == param(owner_id)), compute = count(), target_match(id = param(id)), materialize_to = views)]
    pub const RECOUNT: Operation<Note>;

    async fn chosen(_: ChooserCall<Note>) -> Result<Value> {
        Ok(Value::Live)
    }

    #[projection(Note)]
    pub struct Card {
        pub id: String,
        pub value: Value,
    }
}

/// `gen` is a keyword since the edition 2024, and an ordinary name in earlier editions.
mod keywords {
    use linchpin::prelude::*;

    #[entity(unique(r#gen), index(r#try), routes(auth = none))]
    #[derive(Clone, Debug)]
    pub struct Gen {
        #[field(primary)]
        pub id: String,
        pub r#gen: String,
        pub r#try: i64,
    }

    #[operation(kind = "lookup", fields(r#gen = param(r#gen)), returns = "one")]
    pub const GEN: Operation<Gen>;
    #[operation(kind = "lookup", fields(gen = param(gen)), filter = (r#try == param(r#type)), returns = "one")]
    pub const TRY: Operation<Gen>;
    #[operation(kind = "aggregate", compute(gen = count(), r#type = sum(r#try), r#async = max(r#try)))]
    pub const ASYNC: Operation<Gen>;

    #[allow(dead_code)] // it compiles: that is the test
    async fn used(gens: GenAdapter, cx: &Cx) -> Result<()> {
        let _: Option<Gen> = gens.r#gen(cx, "a").await?;
        let _: Option<Gen> = gens.r#try(cx, "a", 1).await?;
        let row = gens.r#async(cx).await?;
        let _ = (row.r#gen, row.r#type, row.r#async);
        let _ = r#gen::r#gen.eq("a".to_owned());
        Ok(())
    }
}

macro_rules! declare {
    ($name:ident, $ty:ty, $other:ty, $table:literal, $least:literal, $most:expr, $word:literal, $state:path, $field:ident, $list:ty, $time:literal) => {
        #[entity(namespace = $table, unique($field), pagination(default = $most, max = $most), ttl($time), routes(auth = none, timeout = $time))]
        #[derive(Clone, Debug)]
        pub struct $name {
            #[field(primary)]
            pub id: $ty,
            #[field(length = $least..=$most, default = $word)]
            pub $field: $other,
            #[field(range = -5..=$most, default = $least)]
            pub number: i64,
            #[field(default = $state)]
            pub state: $crate::operation::modules_and_fragments::note::Value,
            #[field(one_of($word, "b"), default = $word)]
            pub word: Option<$ty>,
            #[field(default = [$word])]
            pub words: $list,
        }

        #[operation(kind = "lookup", fields($field = param($field), word = $word), filter = (number > $least && state == $state), limit = $most, returns = "many")]
        pub const OF_WORD: Operation<$name>;
        #[operation(kind = "increment", field = number, by = $least)]
        pub const ADD: Operation<$name>;
        #[operation(kind = "custom", params(word: $ty, words: $list), output = $list, handler(memory = all, sqlite = all, postgres = all))]
        pub const ALL: Operation<$name>;

        async fn all<S: linchpin::operation::CustomStore>(_: CustomCall<$name, S>, _: $ty, words: $list) -> Result<$list> {
            Ok(words)
        }

        pub static WRITTEN: Package = package!(name = $word, mount = "/", entities = [entity($name, [OF_WORD, ADD, ALL])]);
    };
}

mod written {
    use linchpin::prelude::*;

    declare!(
        Written,
        String,
        String,
        "spun",
        1,
        10,
        "word",
        crate::operation::modules_and_fragments::note::Value::Draft,
        slug,
        Vec<String>,
        "5s"
    );
}

#[test]
fn the_declarations_compile() {
    assert_eq!(written::Written::DESC.storage_name, "spun_writtens");
    assert_eq!(operations::FIND.spec().name, "find");
    assert_eq!(written::WRITTEN.name, "word");
}
