//! The suite that every store passes.

use std::sync::Arc;

use linchpin_conformance::{agrees_with_memory, items_agree_with_memory, refuses_once_closed};
use linchpin_core::store::Store;
use toy_store::{KIND, ToyStore};

fn empty() -> (Arc<dyn Store>, ()) {
    (Arc::new(ToyStore::new("box")), ())
}

#[test]
fn it_agrees_with_the_memory_store() {
    agrees_with_memory(500, empty);
}

#[test]
fn it_changes_lists_of_items_as_the_memory_store_does() {
    items_agree_with_memory(200, empty);
}

#[tokio::test]
async fn it_refuses_statements_once_closed() {
    refuses_once_closed(&ToyStore::new("box")).await;
}

#[test]
fn its_facts_are_in_order() {
    assert_eq!(KIND.flaw(), None);
}
