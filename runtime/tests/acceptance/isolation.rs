//! The isolation sweep: a request for another owner's record gets the same response as a request
//! for a missing record.
//!
//! The requests are generated from the mounted routes and their parameters, so the sweep includes
//! routes that are added later. Each request is sent twice: once with the values of the victim's
//! record, and once with values of the same form that no record has. After the values are replaced
//! by placeholders, both responses must be equal byte for byte, and the victim's records must be
//! unchanged.

mod answers;
mod crossing;
mod probes;
mod records;

use std::collections::BTreeSet;
use std::path::Path;

use linchpin::EntityEntry;
use linchpin::http::{Action, Endpoint, endpoints};
use linchpin::operation::OpSpec;
use serde_json::{Map, Value as Json, json};

use self::answers::{comparable_response, request, send};
use self::crossing::Swept;
use self::probes::{cursor, forged, probes};
use self::records::{
    missing_record, remove_all_records, reset_caller_records, victim, victim_records,
};
use crate::cases;
use crate::server::Server;

use crate::visibility_fixture::SEEN;

cases!(&crate::visibility_fixture::SEEN =>
    records_of_other_tenants_look_missing, records_of_other_owners_look_missing,
    records_of_tenants_look_missing_to_the_public, records_behind_gates_look_missing,
    records_of_other_numbered_tenants_look_missing,
);

/// The paths of each isolation sweep.
const OF_TENANTS: &[&str] = &["/accounts", "/sheets"];
const OF_NUMBERED_TENANTS: &[&str] = &["/ledgers"];
const OF_OWNERS: &[&str] = &["/tasks"];
const OF_THE_PUBLIC: &[&str] = &["/sheets"];
const BEHIND_GATES: &[&str] = &["/slips"];

/// Checks that the sweeps include every kind of operation in the fixture of the conformance tests.
#[test]
fn every_operation_kind_is_included() {
    let kinds_of = |paths: &[&str]| -> BTreeSet<&str> {
        let entities = SEEN
            .entities
            .iter()
            .filter(|entry| paths.contains(&&*format!("/{}", entry.desc.path)));
        let routed = |spec: &&OpSpec| !spec.routes.is_empty() && spec.unscoped.is_none();
        entities
            .flat_map(EntityEntry::mounted)
            .filter(routed)
            .map(|spec| spec.kind.name())
            .collect()
    };
    let kind = regex::Regex::new("kind = \"([A-Za-z_]+)\"").unwrap();
    let mut compared = BTreeSet::new();
    for file in
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/fixture"))
            .unwrap()
    {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        compared.extend(kind.captures_iter(&text).map(|found| found[1].to_owned()));
    }
    assert!(compared.len() >= 18, "{compared:?}");
    let swept = [OF_TENANTS, OF_OWNERS, BEHIND_GATES].map(kinds_of);
    let missing = |swept: &BTreeSet<&str>| -> Vec<String> {
        compared
            .iter()
            .filter(|kind| !swept.contains(kind.as_str()))
            .cloned()
            .collect()
    };
    assert_eq!(
        missing(&swept.iter().flatten().copied().collect()),
        Vec::<String>::new(),
        "no sweep calls them"
    );
    // The sweep of tenants includes all kinds. The other sweeps include the kinds that have their
    // own statements.
    assert_eq!(
        missing(&swept[0]),
        Vec::<String>::new(),
        "no route of a tenant's entity"
    );
    for others in &swept[1..] {
        for kind in ["derive", "computed_aggregate", "custom", "batch", "consume"] {
            assert!(others.contains(kind), "kind {kind} is not in {others:?}");
        }
    }
}

/// The caller, the victim and the paths.
struct Sweep {
    caller: String,
    victim: String,
    paths: &'static [&'static str],
}

async fn records_of_other_tenants_look_missing(s: &Server) {
    // The caller has a role, so that routes with roles are not only refused.
    let (caller, victim) = (
        s.token_of("eve", "t1", &["admin"]),
        s.token_of("bob", "t2", &["admin"]),
    );
    sweep_routes(
        s,
        &Sweep {
            caller,
            victim,
            paths: OF_TENANTS,
        },
        2,
    )
    .await;
}

/// An entity whose tenant is a private number.
async fn records_of_other_numbered_tenants_look_missing(s: &Server) {
    sweep_routes(
        s,
        &Sweep {
            caller: s.token_in("eve", "1"),
            victim: s.token_in("bob", "2"),
            paths: OF_NUMBERED_TENANTS,
        },
        1,
    )
    .await;
}

async fn records_of_other_owners_look_missing(s: &Server) {
    sweep_routes(
        s,
        &Sweep {
            caller: s.token("eve", &[]),
            victim: s.token("bob", &[]),
            paths: OF_OWNERS,
        },
        1,
    )
    .await;
}

async fn records_of_tenants_look_missing_to_the_public(s: &Server) {
    sweep_routes(
        s,
        &Sweep {
            caller: String::new(),
            victim: s.token_in("bob", "t2"),
            paths: OF_THE_PUBLIC,
        },
        1,
    )
    .await;
}

/// A slip has no owner field. The vault that it refers to determines who may see it.
async fn records_behind_gates_look_missing(s: &Server) {
    let sweep = Sweep {
        caller: s.token("eve", &[]),
        victim: s.token("bob", &[]),
        paths: BEHIND_GATES,
    };
    for (token, vault) in [(&sweep.caller, OWN), (&sweep.victim, THEIRS)] {
        assert_eq!(
            request(
                s,
                token,
                "POST",
                "/vaults",
                &[],
                Some(&json!({"id": vault}))
            )
            .await
            .status,
            201
        );
    }
    sweep_routes(s, &sweep, 1).await;
}

/// The vaults that determine the visibility of the caller's and the victim's records.
const OWN: &str = "vault-of-eve";
const THEIRS: &str = "vault-of-bob";

/// The values of a record by wire name, as a client knows them. Either the record exists, or no
/// record has these values.
type Known = Map<String, Json>;

async fn sweep_routes(s: &Server, sweep: &Sweep, entities: usize) {
    let mounted = endpoints(&SEEN, "/", s.running().adapters());
    let is_below_path = |e: &&Endpoint| {
        sweep
            .paths
            .iter()
            .any(|p| e.path == *p || e.path.starts_with(&format!("{p}/")))
    };
    let swept: Vec<&Endpoint> = mounted
        .iter()
        .filter(is_below_path)
        .filter(|e| !is_unscoped(e))
        .collect();
    assert_eq!(
        swept
            .iter()
            .filter(|e| matches!(e.action, Action::Create))
            .count(),
        entities
    );
    let (mut reached, mut replayed, mut included, mut derived) = (BTreeSet::new(), 0, 0, 0);
    for endpoint in &swept {
        let desc = endpoint.table.as_ref().unwrap().desc;
        let base = sweep
            .paths
            .iter()
            .find(|p| endpoint.path.starts_with(**p))
            .unwrap();
        // The sweep of each route begins without records, so that earlier routes do not affect it.
        // After each probe, the test reads all records. Records of earlier routes would make these
        // reads slow.
        remove_all_records(s, desc).await;
        let theirs = victim(s, sweep, base, desc, 0).await;
        let second = victim(s, sweep, base, desc, 1).await;
        let missing = missing_record(desc, &theirs);
        if is_of_deleted(endpoint) {
            for record in [&theirs, &second] {
                let path = format!("{base}/{}", record["id"].as_str().unwrap());
                assert_eq!(
                    request(s, &sweep.victim, "DELETE", &path, &[], None)
                        .await
                        .status,
                    204
                );
            }
        }
        let before = victim_records(s, desc).await;
        let cursor = cursor(s, sweep, endpoint, &theirs).await;
        for probe in probes(endpoint, desc) {
            let (real, none) = (probe(&theirs, &cursor), probe(&missing, &forged(&cursor)));
            reset_caller_records(s, sweep, base, desc).await;
            let real_answer = send(s, sweep, &real).await;
            reset_caller_records(s, sweep, base, desc).await;
            let none_answer = send(s, sweep, &none).await;
            let (real_text, none_text) = (
                comparable_response(&real_answer, &theirs, &cursor),
                comparable_response(&none_answer, &missing, &forged(&cursor)),
            );
            assert_eq!(
                real_text,
                none_text,
                "{} {} returns different responses for {real:?} and {none:?}",
                endpoint.method.as_str(),
                endpoint.path
            );
            assert!(real_answer.status < 500, "{real:?} {real_answer:?}");
            assert_eq!(
                victim_records(s, desc).await,
                before,
                "{real:?} changed a record of the victim"
            );
            reached.insert(format!("{} {}", endpoint.method.as_str(), endpoint.path));
        }
        let route = Swept {
            s,
            sweep,
            endpoint,
            desc,
            base,
        };
        replayed += usize::from(crossing::answers_are_not_replayed(route).await);
        included += usize::from(crossing::included_records_are_ones_own(route).await);
        derived += usize::from(crossing::derived_records_are_ones_own(route).await);
    }
    // If a swept route has idempotency keys, the check of replays has run. If a swept route has
    // relations, the checks of included and derived records have run.
    let related = swept
        .iter()
        .any(|e| e.includes() && !sweep.caller.is_empty());
    let repeats = swept.iter().any(|e| e.policy.idempotency.is_some());
    assert!(
        (!repeats || replayed >= entities) && (!related || (included >= 2 && derived >= 1)),
        "{replayed} {included} {derived}"
    );
    let all: BTreeSet<String> = swept
        .iter()
        .map(|e| format!("{} {}", e.method.as_str(), e.path))
        .collect();
    assert_eq!(reached, all, "every route was probed");
}

/// Whether the route works on deleted records. For such a route, the test first deletes the
/// victim's records.
fn is_of_deleted(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if ["account_restore", "account_lost"].contains(&spec.name))
}

/// An `unscoped` route returns records of other owners by declaration.
fn is_unscoped(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if spec.unscoped.is_some())
}
