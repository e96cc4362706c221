//! Transactions: calls on several adapters that commit together.

#![allow(missing_docs)] // a fixture

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::{Actor, Cx};
use serde_json::json;

use crate::cases;
use crate::server::Server;

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Account {
    #[field(primary)]
    pub id: String,
    #[field(range = 0..)]
    pub balance: i64,
}

#[operation(kind = "increment", field = balance, by = -1)]
pub const TAKE: Operation<Account>;

#[operation(kind = "increment", field = balance, by = 1)]
pub const GIVE: Operation<Account>;

#[entity(unique(number), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Entry {
    #[field(primary, default = uuid)]
    pub id: String,
    pub number: i64,
    pub text: String,
}

#[operation(kind = "lookup", fields(number = param(number)), filter = (text.contains("É")), returns = "one")]
pub const ACCENTED: Operation<Entry>;

#[operation(kind = "consume", filter = (number == param(number)), returns = "boolean")]
pub const TEAR: Operation<Entry>;

pub static BANK: Package = package!(
    name = "bank",
    entities = [
        entity(Account, [TAKE, GIVE]),
        entity(Entry, [ACCENTED, TEAR])
    ]
);

cases!(&super::BANK =>
    a_transaction_commits_all_writes, a_failed_transaction_is_rolled_back,
    a_rolled_back_transaction_holds_no_locks, a_dropped_transaction_is_rolled_back,
    a_transaction_continues_after_a_refused_call, a_transaction_reads_its_own_writes,
    concurrent_transfers_keep_the_total, the_context_of_an_ended_transaction_is_refused,
    a_nested_transaction_joins_the_outer_one, a_transaction_of_reads_can_be_spawned,
    after_commit_functions_run_after_the_commit,
);

struct Bank {
    accounts: AccountAdapter,
    entries: EntryAdapter,
    cx: Cx,
}

fn bank(s: &Server) -> Bank {
    let app = s.running();
    Bank {
        accounts: app.adapter::<Account>().unwrap(),
        entries: app.adapter::<Entry>().unwrap(),
        cx: Cx::actor(Actor::user("clerk")),
    }
}

async fn accounts(s: &Server) -> Bank {
    for id in ["a", "b"] {
        assert_eq!(
            s.post("/accounts", json!({"id": id, "balance": 100}))
                .await
                .status,
            201
        );
    }
    bank(s)
}

fn rollback_error() -> linchpin::Error {
    linchpin::Error::new(linchpin::Code::Conflict, "changed my mind")
}

fn entry(number: i64) -> EntryCreate {
    EntryCreate {
        number,
        text: "é".to_owned(),
    }
}

async fn balance(s: &Server, id: &str) -> i64 {
    s.get(&format!("/accounts/{id}")).await.json()["balance"]
        .as_i64()
        .unwrap()
}

async fn a_transaction_commits_all_writes(s: &Server) {
    let bank = accounts(s).await;
    let made = bank.cx.transaction(async |cx| {
        bank.accounts.take(cx, "a").await?;
        bank.accounts.give(cx, "b").await?;
        bank.entries.create(cx, entry(1)).await
    });
    assert_eq!(made.await.unwrap().number, 1);
    assert_eq!((balance(s, "a").await, balance(s, "b").await), (99, 101));
    assert_eq!(s.walk("/entries").await.len(), 1);
}

// After a rolled-back transaction no lock remains. Otherwise the next `tear` would return false,
// because a consume skips records that another transaction has locked.
async fn a_rolled_back_transaction_holds_no_locks(s: &Server) {
    let bank = bank(s);
    for number in 0..20 {
        let entry = EntryCreate {
            number,
            text: String::new(),
        };
        bank.entries.create(&bank.cx, entry).await.unwrap();
        let failed: Result<()> = bank
            .cx
            .transaction(async |cx| {
                assert!(bank.entries.tear(cx, number).await?);
                Err(Error::not_found())
            })
            .await;
        assert!(failed.is_err());
        assert!(
            bank.entries.tear(&bank.cx, number).await.unwrap(),
            "{number}"
        );
    }
}

async fn a_failed_transaction_is_rolled_back(s: &Server) {
    let bank = accounts(s).await;
    let outcome: linchpin::Result<()> = bank
        .cx
        .transaction(async |cx| {
            bank.accounts.take(cx, "a").await?;
            bank.accounts.delete(cx, "b", None).await?;
            bank.entries.create(cx, entry(1)).await?;
            bank.accounts.give(cx, "nobody").await?;
            Ok(())
        })
        .await;
    assert_eq!(outcome.unwrap_err().code(), linchpin::Code::NotFound);
    assert_eq!((balance(s, "a").await, balance(s, "b").await), (100, 100));
    assert!(s.walk("/entries").await.is_empty());
}

// The call is dropped in the middle, like a cancelled request.
async fn a_dropped_transaction_is_rolled_back(s: &Server) {
    let bank = accounts(s).await;
    let work = bank.cx.transaction(async |cx| {
        bank.accounts.take(cx, "a").await?;
        std::future::pending::<()>().await;
        Ok(())
    });
    assert!(
        tokio::time::timeout(Duration::from_millis(100), work)
            .await
            .is_err()
    );
    assert_eq!(
        s.post("/accounts/b/give", json!({})).await.status,
        200,
        "others write again"
    );
    assert_eq!(balance(s, "a").await, 100);
}

async fn a_transaction_continues_after_a_refused_call(s: &Server) {
    let bank = bank(s);
    let outcome = bank.cx.transaction(async |cx| {
        bank.entries.create(cx, entry(1)).await?;
        let refused = bank.entries.create(cx, entry(1)).await.unwrap_err();
        assert_eq!(refused.code(), linchpin::Code::Conflict);
        bank.entries.create(cx, entry(2)).await
    });
    assert_eq!(outcome.await.unwrap().number, 2);
    assert_eq!(s.walk("/entries").await.len(), 2);
}

async fn a_transaction_reads_its_own_writes(s: &Server) {
    let bank = bank(s);
    let outcome = bank.cx.transaction(async |cx| {
        let made = bank.entries.create(cx, entry(7)).await?;
        // The transaction finds the record by its key, by a filter that calls a function of the
        // framework, and in a list.
        assert_eq!(
            bank.entries
                .get(cx, made.id.clone())
                .await?
                .map(|e| e.number),
            Some(7)
        );
        assert_eq!(
            bank.entries.accented(cx, 7).await?.map(|e| e.id),
            Some(made.id)
        );
        Ok(bank
            .entries
            .list(cx, EntryListQuery::default())
            .await?
            .items
            .len())
    });
    assert_eq!(outcome.await.unwrap(), 1);
}

async fn concurrent_transfers_keep_the_total(s: &Server) {
    let bank = accounts(s).await;
    let transfer = |i: usize| {
        let bank = &bank;
        let (from, to) = if i.is_multiple_of(2) {
            ("a", "b")
        } else {
            ("b", "a")
        };
        async move {
            bank.cx
                .transaction(async |cx| {
                    bank.accounts.take(cx, from).await?;
                    tokio::task::yield_now().await;
                    bank.accounts.give(cx, to).await?;
                    if i.is_multiple_of(5) {
                        Err(rollback_error())
                    } else {
                        Ok(())
                    }
                })
                .await
        }
    };
    let outcomes = futures_util::future::join_all((0..60).map(transfer)).await;
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 48);
    assert_eq!(balance(s, "a").await + balance(s, "b").await, 200);
}

// A context that is used after its transaction is refused, because its writes could not be rolled
// back.
async fn the_context_of_an_ended_transaction_is_refused(s: &Server) {
    let bank = accounts(s).await;
    let kept = bank
        .cx
        .transaction(async |cx| Ok(cx.clone()))
        .await
        .unwrap();
    assert_eq!(
        bank.accounts.take(&kept, "a").await.unwrap_err().code(),
        linchpin::Code::Internal
    );
    assert_eq!(balance(s, "a").await, 100);
}

async fn a_nested_transaction_joins_the_outer_one(s: &Server) {
    let bank = accounts(s).await;
    let outcome: linchpin::Result<()> = bank
        .cx
        .transaction(async |cx| {
            cx.transaction(async |cx| bank.accounts.take(cx, "a").await)
                .await?;
            Err(rollback_error())
        })
        .await;
    assert!(outcome.is_err());
    assert_eq!(balance(s, "a").await, 100);
}

// The server spawns handlers, so the future must be `Send`.
async fn a_transaction_of_reads_can_be_spawned(s: &Server) {
    let bank = accounts(s).await;
    let work = async move {
        bank.cx
            .transaction(async |cx| bank.accounts.get(cx, "a").await)
            .await
    };
    assert_eq!(
        tokio::spawn(work)
            .await
            .unwrap()
            .unwrap()
            .map(|a| a.balance),
        Some(100)
    );
}

// A function of `after_commit` runs after the commit, so it sees what the transaction wrote. The
// functions run in order, and never after a rollback.
async fn after_commit_functions_run_after_the_commit(s: &Server) {
    let bank = accounts(s).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let calls = Arc::clone(&calls);
        move || calls.lock().unwrap().push(name)
    };
    bank.cx
        .transaction(async |cx| {
            cx.after_commit(note("first"));
            // Its panic is logged: the records are stored, so the call succeeds.
            cx.after_commit(|| panic!("on purpose"));
            bank.accounts.take(cx, "a").await?;
            cx.transaction(async |cx| {
                cx.after_commit(note("second"));
                Ok(())
            })
            .await?;
            assert!(calls.lock().unwrap().is_empty(), "before the commit");
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(*calls.lock().unwrap(), ["first", "second"]);

    let undone: linchpin::Result<()> = bank
        .cx
        .transaction(async |cx| {
            cx.after_commit(note("undone"));
            bank.accounts.take(cx, "a").await?;
            Err(rollback_error())
        })
        .await;
    assert!(undone.is_err());
    assert_eq!(calls.lock().unwrap().len(), 2, "after a rollback");

    bank.cx.after_commit(note("no transaction"));
    assert_eq!(calls.lock().unwrap().last(), Some(&"no transaction"));
}
