//! Operations that write: `field_update`, arrays, batch, upsert, consume.

#![allow(missing_docs)] // test entities

mod array;
mod batch;
mod consume;
mod field_update;
mod upsert;

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use self::array::{
    array_limits_are_enforced, array_pull_removes_all_equal_values, array_push_adds_a_value_once,
    array_push_creates_an_optional_list, array_push_of_a_context_value,
    array_push_without_dedupe_repeats_values, array_set_replaces_the_list,
    concurrent_pushes_all_arrive,
};
use self::batch::{
    a_batch_applies_every_condition, a_batch_deletes_all_matches,
    a_batch_that_violates_a_unique_changes_nothing, a_batch_updates_all_matches,
    a_batch_without_a_match_changes_nothing, a_void_batch_returns_nothing,
};
use self::consume::{
    concurrent_consumes_return_different_records, concurrent_consumes_succeed_once,
    consume_ignores_expired_records, consume_may_return_a_boolean, consume_returns_a_record_once,
    consume_skips_records_in_use, consume_takes_the_first_in_order,
};
use self::field_update::{
    field_update_refuses_other_fields, field_update_validates_its_fields,
    field_update_writes_its_fields, match_conditions_restrict_a_field_update,
    nullable_fields_may_be_cleared, partial_fields_may_be_omitted,
};
use self::upsert::{
    concurrent_upserts_create_once, upsert_cannot_change_hidden_records,
    upsert_creates_then_updates, upsert_keeps_omitted_fields, upsert_matches_by_key,
    upsert_refuses_a_key_that_the_server_generates, upsert_validates_its_fields,
};
use crate::cases;
use crate::fixture::Status;
use crate::server::Server;

/// An article with fields for every writing kind.
#[entity(unique(slug), index(category), sort = asc(slug), pagination(default = 50, max = 100), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(length = 1..=20, filterable)]
    pub title: String,
    #[field(format = "email")]
    pub email: Option<String>,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub category: Option<String>,
    #[field(default = 0, filterable)]
    pub score: i64,
    pub tags: Option<Vec<String>>,
    #[field(items = ..=2, each(length = 1..=5))]
    pub few: Vec<String>,
    #[field(items = 1.., default = ["a", "b"])]
    pub some: Vec<String>,
    #[field(default = now, filterable)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "field_update", set(title))]
pub const RETITLE: Operation<Article>;

#[operation(kind = "fieldUpdate", set(title, category))]
pub const RENAME: Operation<Article>;

#[operation(kind = "field_update", set(title, category), partial)]
pub const REVISE: Operation<Article>;

#[operation(kind = "field_update", set(category, email), partial, nullable)]
pub const CLEAR: Operation<Article>;

#[operation(kind = "field_update", match(id = param(id), status = Status::Draft), set(status))]
pub const DECIDE: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const ADD_TAG: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = input(tag), dedupe = false)]
pub const APPEND_TAG: Operation<Article>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const DROP_TAG: Operation<Article>;

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const SET_TAGS: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = ctx(actor.id), route(auth = "userAuth"))]
pub const FOLLOW: Operation<Article>;

#[operation(kind = "array_push", field = few, value = input(tag))]
pub const ADD_FEW: Operation<Article>;

#[operation(kind = "array_pull", field = some, value = param(tag))]
pub const DROP_SOME: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(status = Status::Published))]
pub const PUBLISH_ALL: Operation<Article>;

#[operation(kind = "batch", action = "delete", filter = (status == Status::Published))]
pub const SWEEP: Operation<Article>;

#[operation(kind = "batch", action = "delete", filter = (category == "none" || category == "never"))]
pub const SWEEP_EITHER: Operation<Article>;

#[operation(
    kind = "batch",
    action = "update",
    filter = (score > param(least) && category.one_of(["x", "y"]) && title.contains(param(part)) && created_at <= now()),
    set(status = Status::Archived),
)]
pub const ARCHIVE_SOME: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(score = 0), returns = "void", atomic)]
pub const RESET: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(slug = param(slug)))]
pub const RESLUG: Operation<Article>;

#[operation(
    kind = "upsert",
    match(slug),
    set(title, category),
    on_create(score = 7),
    returns = "created"
)]
pub const ENSURE: Operation<Article>;

#[operation(kind = "upsert", match(slug), set(title), on_create(id = uuid()))]
pub const PUT_TITLE: Operation<Article>;

/// A code that can be used once.
#[entity(sort = asc(rank), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Voucher {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub code: String,
    #[field(default = 0)]
    pub rank: i64,
    pub expires_at: Option<Timestamp>,
}

#[operation(kind = "consume", filter = (code == param(code)), returns = "entity", expiry = expires_at)]
pub const REDEEM: Operation<Voucher>;

#[operation(kind = "consume", filter = (code == param(code)), returns = "boolean", expiry = expires_at)]
pub const SPEND: Operation<Voucher>;

#[operation(kind = "consume", filter = (id == param(id)), returns = "entity")]
pub const TAKE: Operation<Voucher>;

/// A setting under a key of the client's choice.
#[entity(check = small, version, routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Setting {
    #[field(primary)]
    pub id: String,
    pub low: i64,
    #[field(default = 100)]
    pub high: i64,
}

fn small(setting: &Setting) -> std::result::Result<(), Problem> {
    if setting.low <= setting.high {
        Ok(())
    } else {
        Err(Problem::new("low", "check", "must not exceed high"))
    }
}

#[operation(kind = "upsert", match(id), set(low, high))]
pub const PUT_SETTING: Operation<Setting>;

/// A drawer with soft delete: a deleted record keeps its key.
#[entity(check = tidy, soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Drawer {
    #[field(primary)]
    pub id: String,
    pub label: String,
    #[field(read_only)]
    pub deleted_at: Option<Timestamp>,
}

fn tidy(drawer: &Drawer) -> std::result::Result<(), Problem> {
    if drawer.label.is_empty() {
        Err(Problem::new("label", "check", "must say something"))
    } else {
        Ok(())
    }
}

#[operation(kind = "upsert", match(id), set(label))]
pub const PUT_DRAWER: Operation<Drawer>;

pub static WRITES: Package = package!(
    name = "writes",
    entities = [
        entity(
            Article,
            [
                RETITLE,
                RENAME,
                REVISE,
                CLEAR,
                DECIDE,
                ADD_TAG,
                APPEND_TAG,
                DROP_TAG,
                SET_TAGS,
                FOLLOW,
                ADD_FEW,
                DROP_SOME,
                PUBLISH_ALL,
                SWEEP,
                SWEEP_EITHER,
                ARCHIVE_SOME,
                RESET,
                RESLUG,
                ENSURE,
                PUT_TITLE,
            ]
        ),
        entity(Voucher, [REDEEM, SPEND, TAKE]),
        entity(Setting, [PUT_SETTING]),
        entity(Drawer, [PUT_DRAWER]),
    ],
);

cases!(&super::WRITES =>
    field_update_writes_its_fields, field_update_refuses_other_fields,
    field_update_validates_its_fields, partial_fields_may_be_omitted,
    nullable_fields_may_be_cleared, match_conditions_restrict_a_field_update,
    array_push_adds_a_value_once, array_push_without_dedupe_repeats_values,
    array_pull_removes_all_equal_values, array_set_replaces_the_list,
    array_push_creates_an_optional_list, array_push_of_a_context_value,
    concurrent_pushes_all_arrive, array_limits_are_enforced, a_batch_updates_all_matches,
    a_batch_deletes_all_matches, a_batch_without_a_match_changes_nothing,
    a_batch_applies_every_condition, a_void_batch_returns_nothing,
    a_batch_that_violates_a_unique_changes_nothing, upsert_creates_then_updates,
    upsert_keeps_omitted_fields, concurrent_upserts_create_once, upsert_matches_by_key,
    upsert_refuses_a_key_that_the_server_generates, upsert_validates_its_fields,
    upsert_cannot_change_hidden_records, consume_returns_a_record_once,
    consume_may_return_a_boolean, consume_ignores_expired_records, consume_takes_the_first_in_order,
    concurrent_consumes_succeed_once, concurrent_consumes_return_different_records,
    consume_skips_records_in_use,
);

async fn article(s: &Server, body: Json) -> String {
    let mut record = json!({"slug": "a", "title": "A title"});
    record
        .as_object_mut()
        .unwrap()
        .extend(body.as_object().unwrap().clone());
    let reply = s.post("/articles", record).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    format!("/articles/{}", reply.json()["id"].as_str().unwrap())
}

async fn plain(s: &Server) -> String {
    article(s, json!({})).await
}
