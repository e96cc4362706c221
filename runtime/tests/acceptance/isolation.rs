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

use self::answers::{plain, request, send};
use self::crossing::Swept;
use self::probes::{cursor, forged, probes};
use self::records::{clean, dump, empty, phantom, victim};
use crate::cases;
use crate::server::Server;

use crate::visibility_fixture::SEEN;

cases!(&crate::visibility_fixture::SEEN => 
    other_tenants_do_not_exist, other_owners_do_not_exist, records_of_tenants_do_not_exist_for_the_public,
    records_behind_gates_do_not_exist, other_numbered_tenants_do_not_exist);

/// The paths of each sweep.
const OF_TENANTS: &[&str] = &["/accounts", "/sheets"];
const OF_NUMBERED_TENANTS: &[&str] = &["/ledgers"];
const OF_OWNERS: &[&str] = &["/tasks"];
const OF_THE_PUBLIC: &[&str] = &["/sheets"];
const BEHIND_GATES: &[&str] = &["/slips"];

/// Every kind of operation is swept: all kinds of the fixture that compares stores must be
/// included.
#[test]
fn every_kind_is_swept() {
    let of = |paths: &[&str]| -> BTreeSet<&str> {
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
    let swept = [OF_TENANTS, OF_OWNERS, BEHIND_GATES].map(of);
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
    // All entities with tenants, and the other visibility conditions for kinds with statements of
    // their own.
    assert_eq!(
        missing(&swept[0]),
        Vec::<String>::new(),
        "no route of a tenant's entity"
    );
    for others in &swept[1..] {
        for kind in ["derive", "computed_aggregate", "custom", "batch", "consume"] {
            assert!(others.contains(kind), "{kind} is not in {others:?}");
        }
    }
}

/// The caller, the victim and the paths.
struct Sweep {
    asking: String,
    victim: String,
    paths: &'static [&'static str],
}

async fn other_tenants_do_not_exist(s: &Server) {
    // The caller has a role, so that routes with roles are not only refused.
    let (asking, victim) = (
        s.token_of("eve", "t1", &["admin"]),
        s.token_of("bob", "t2", &["admin"]),
    );
    run(
        s,
        &Sweep {
            asking,
            victim,
            paths: OF_TENANTS,
        },
        2,
    )
    .await;
}

/// An entity whose tenant is a private number.
async fn other_numbered_tenants_do_not_exist(s: &Server) {
    run(
        s,
        &Sweep {
            asking: s.token_in("eve", "1"),
            victim: s.token_in("bob", "2"),
            paths: OF_NUMBERED_TENANTS,
        },
        1,
    )
    .await;
}

async fn other_owners_do_not_exist(s: &Server) {
    run(
        s,
        &Sweep {
            asking: s.token("eve", &[]),
            victim: s.token("bob", &[]),
            paths: OF_OWNERS,
        },
        1,
    )
    .await;
}

async fn records_of_tenants_do_not_exist_for_the_public(s: &Server) {
    run(
        s,
        &Sweep {
            asking: String::new(),
            victim: s.token_in("bob", "t2"),
            paths: OF_THE_PUBLIC,
        },
        1,
    )
    .await;
}

/// The record has no owner field; the record that it refers to decides.
async fn records_behind_gates_do_not_exist(s: &Server) {
    let sweep = Sweep {
        asking: s.token("eve", &[]),
        victim: s.token("bob", &[]),
        paths: BEHIND_GATES,
    };
    for (token, vault) in [(&sweep.asking, OWN), (&sweep.victim, THEIRS)] {
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
    run(s, &sweep, 1).await;
}

/// Records that decide the visibility of the caller's and the victim's records.
const OWN: &str = "vault-of-eve";
const THEIRS: &str = "vault-of-bob";

/// A record by wire name, as a client knows it: an existing one, or one of the same form that does
/// not exist.
type Known = Map<String, Json>;

async fn run(s: &Server, sweep: &Sweep, entities: usize) {
    let mounted = endpoints(&SEEN, "/", s.running().adapters());
    let on = |e: &&Endpoint| {
        sweep
            .paths
            .iter()
            .any(|p| e.path == *p || e.path.starts_with(&format!("{p}/")))
    };
    let swept: Vec<&Endpoint> = mounted
        .iter()
        .filter(on)
        .filter(|e| !is_lifted(e))
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
        // Each probe has its own record, so that earlier probes do not affect it. All records are
        // read after each probe: those of earlier routes would be most of the work.
        empty(s, desc).await;
        let theirs = victim(s, sweep, base, desc, 0).await;
        let second = victim(s, sweep, base, desc, 1).await;
        let nobodys = phantom(desc, &theirs);
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
        let before = dump(s, desc).await;
        let cursor = cursor(s, sweep, endpoint, &theirs).await;
        for probe in probes(endpoint, desc, base) {
            let (real, none) = (probe(&theirs, &cursor), probe(&nobodys, &forged(&cursor)));
            clean(s, sweep, base, desc).await;
            let real_answer = send(s, sweep, &real).await;
            clean(s, sweep, base, desc).await;
            let none_answer = send(s, sweep, &none).await;
            let (real_text, none_text) = (
                plain(&real_answer, &theirs, &cursor),
                plain(&none_answer, &nobodys, &forged(&cursor)),
            );
            assert_eq!(
                real_text,
                none_text,
                "{} {} tells {real:?} from {none:?}",
                endpoint.method.as_str(),
                endpoint.path
            );
            assert!(real_answer.status < 500, "{real:?} {real_answer:?}");
            assert_eq!(
                dump(s, desc).await,
                before,
                "{real:?} changed what is not the caller's"
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
    // At least one entity declares relations, so that the test checks something.
    let related = swept
        .iter()
        .any(|e| e.includes() && !sweep.asking.is_empty());
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

/// Whether the route works on deleted records; then the victim's record is deleted.
fn is_of_deleted(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if ["account_restore", "account_lost"].contains(&spec.name))
}

/// An `unscoped` route returns records of other owners by declaration.
fn is_lifted(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if spec.unscoped.is_some())
}
