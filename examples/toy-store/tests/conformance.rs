//! Runs the conformance suite, which every store must pass.

use std::sync::Arc;

use linchpin_conformance::{agrees_with_memory, items_agree_with_memory, refuses_once_closed};
use linchpin_core::store::Store;
use toy_store::{KIND, ToyStore};

fn empty() -> (Arc<dyn Store>, ()) {
    (Arc::new(ToyStore::new("box")), ())
}

#[test]
fn the_store_agrees_with_the_memory_store() {
    agrees_with_memory(500, empty);
}

#[test]
fn the_store_changes_item_lists_like_the_memory_store() {
    items_agree_with_memory(200, empty);
}

#[tokio::test]
async fn a_closed_store_refuses_statements() {
    refuses_once_closed(&ToyStore::new("box")).await;
}

#[test]
fn the_store_kind_is_valid() {
    assert_eq!(KIND.flaw(), None);
}
