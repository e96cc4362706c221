//! Visibility of the records in events: the check in memory agrees with the check in the store.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use linchpin::filter::CtxPath;
use linchpin::http::{RouteAuth, RouteCaller, RouteRequest};
use linchpin::prelude::*;
use linchpin::resource::{EventGuard, EventScope};
use linchpin::{BoxFuture, Code, Entity, Plugin, PostCx, Running};
use serde_json::{Map, Value as Json, json};

use crate::fixture::config;

/// A hall of speeches: visible to every caller, or to its owner only.
#[entity(
    visible(open || owner_id == ctx(actor.id)),
    action("write", owner_id == ctx(actor.id)),
    routes(auth = none)
)]
#[derive(Clone, Debug)]
pub struct Hall {
    #[field(primary)]
    pub id: String,
    pub open: bool,
    pub owner_id: Option<String>,
}

/// A speech in a hall.
#[entity(
    gate(hall_id -> Hall),
    index(hall_id),
    tenant(team_id, optional, anonymous_read),
    visible(published || author_id == ctx(actor.id)),
    soft_delete(deleted_at),
    ttl(expires_at),
    routes(get(auth = none), list(auth = none))
)]
#[derive(Clone, Debug)]
pub struct Speech {
    #[field(primary)]
    pub id: String,
    pub hall_id: String,
    pub team_id: Option<String>,
    pub author_id: String,
    pub published: bool,
    pub deleted_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

/// A draft, which is visible to callers who may write in its hall.
#[entity(gate(hall_id -> Hall, "write"), index(hall_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Draft {
    #[field(primary)]
    pub id: String,
    pub hall_id: String,
}

/// A paper, which its author and callers with a permission may read.
#[entity(
    tenant(team_id),
    scope(desk = ctx(actor.kind)),
    index(desk),
    routes(permission(requires = "paper.read", owner_field = author_id))
)]
#[derive(Clone, Debug)]
pub struct Paper {
    #[field(primary)]
    pub id: String,
    pub team_id: String,
    pub desk: String,
    pub author_id: String,
}

/// A badge. Its routes accept the key in upper case, too.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Badge {
    #[field(primary, format = "uuid")]
    pub id: String,
}

/// A seat with an integer key.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Seat {
    #[field(primary)]
    pub id: i64,
}

static TALKS: Package = package!(
    name = "talks",
    entities = [
        entity(Hall),
        entity(Speech),
        entity(Draft),
        entity(Paper),
        entity(Badge),
        entity(Seat)
    ]
);

/// Stores the `RouteCaller` of the app, and grants all permissions to actors with the
/// role `reader`.
#[derive(Clone, Default)]
struct Rooms(Arc<OnceLock<RouteCaller>>);

impl Plugin for Rooms {
    fn name(&self) -> &'static str {
        "rooms"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        self.0.set(cx.route_caller().clone()).expect("one start");
        Box::pin(async {
            let registrar = cx.registrar();
            registrar.set_permissions(|actor, _| actor.has_any_role(&["reader"]))?;
            registrar.set_route_auth(RouteAuth::default())
        })
    }
}

async fn started() -> (Running, RouteCaller) {
    let rooms = Rooms::default();
    let app = App::new(config()).package(&TALKS).plugin(rooms.clone());
    let running = app.start().await.unwrap();
    let caller = rooms.0.get().cloned().unwrap();
    (running, caller)
}

fn guard<E: Entity>(app: &Running, scope: EventScope, settled: &[&str]) -> EventGuard {
    let table = app.adapters().table(E::DESC.storage_name).unwrap();
    EventGuard::new(table, scope, settled).unwrap()
}

fn members(value: Json) -> Map<String, Json> {
    value.as_object().cloned().unwrap()
}

fn in_team(user: &str, team: Option<&str>) -> Actor {
    Actor {
        tenant_id: team.map(str::to_owned),
        ..Actor::user(user)
    }
}

/// Whether a response contains the record. A missing and a hidden record look the same.
fn visible<T>(found: Result<Option<T>>) -> bool {
    match found {
        Ok(found) => found.is_some(),
        Err(error) => {
            assert!(
                matches!(error.code(), Code::Unauthorized | Code::Forbidden),
                "{error:?}"
            );
            false
        }
    }
}

#[tokio::test]
async fn memory_and_store_agree_about_every_caller_and_record() {
    let (app, _) = started().await;
    let (halls, speeches) = (
        app.adapter::<Hall>().unwrap(),
        app.adapter::<Speech>().unwrap(),
    );
    let system = Cx::system("a test");
    for (id, open) in [("open", true), ("adas", false)] {
        let owner_id = Some("ada".to_owned());
        let hall = HallCreate {
            id: id.to_owned(),
            open,
            owner_id,
        };
        halls.create(&system, hall).await.unwrap();
    }
    let now = app.adapters().now();
    let shifted = |minutes: i64| Timestamp::from_millis(now.millis() + minutes * 60_000);
    let mut records = Vec::new();
    for hall in ["open", "adas"] {
        for team in [None, Some("red"), Some("blue")] {
            for author in ["ada", "bob"] {
                for published in [false, true] {
                    for deleted in [false, true] {
                        for expires_at in [None, Some(shifted(-5)), Some(shifted(5))] {
                            records.push((hall, team, author, published, deleted, expires_at));
                        }
                    }
                }
            }
        }
    }
    let mut states = Vec::new();
    for (n, (hall, team, author, published, deleted, expires_at)) in records.iter().enumerate() {
        let id = n.to_string();
        let cx = match team {
            Some(team) => system.clone().within(speech::team_id, *team),
            None => system.clone(),
        };
        let speech = SpeechCreate {
            id: id.clone(),
            hall_id: (*hall).to_owned(),
            author_id: (*author).to_owned(),
            published: *published,
            expires_at: *expires_at,
        };
        speeches.create(&cx, speech).await.unwrap();
        if *deleted {
            // An expired record cannot be deleted.
            let _ = speeches.delete(&cx, id.as_str(), None).await;
        }
        let date = |at: Option<Timestamp>| at.map(|at| at.to_string());
        states.push(members(json!({
            "id": id, "hallId": hall, "teamId": team, "authorId": author, "published": published,
            "deletedAt": date(deleted.then_some(now)), "expiresAt": date(*expires_at),
        })));
    }
    let callers = [
        Actor::anonymous(),
        in_team("ada", None),
        in_team("bob", None),
        in_team("ada", Some("red")),
        in_team("bob", Some("red")),
        in_team("bob", Some("blue")),
    ];
    let settled = guard::<Speech>(&app, EventScope::Record, &["hall_id"]);
    let closed = guard::<Speech>(&app, EventScope::Record, &[]);
    let (mut seen, mut tuples) = (0, HashSet::new());
    for actor in callers {
        let cx = Cx::actor(actor);
        let tuple = settled.tuple(&cx).unwrap();
        for (state, (hall, ..)) in states.iter().zip(&records) {
            let id = state["id"].as_str().unwrap();
            let stored = visible(speeches.get(&cx, id).await);
            let enters = settled.settles(&cx, "hall_id", hall).await.unwrap();
            let event_state = settled.state(state).unwrap();
            let admitted = enters && settled.admits(&tuple, &event_state, now);
            assert_eq!(admitted, stored, "{state:?} for {:?}", cx.get_actor());
            let event_state = closed.state(state).unwrap();
            let unsettled = closed.admits(&closed.tuple(&cx).unwrap(), &event_state, now);
            assert!(!unsettled, "no caller was checked against the hall");
            seen += usize::from(stored);
        }
        tuples.insert(tuple);
    }
    assert!(seen > 20, "the callers see {seen} records");
    assert_eq!(tuples.len(), 6);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_gate_with_an_action_depends_on_the_permission_for_it() {
    let (app, _) = started().await;
    let (halls, drafts) = (
        app.adapter::<Hall>().unwrap(),
        app.adapter::<Draft>().unwrap(),
    );
    let system = Cx::system("a test");
    for (id, open, owner) in [("open", true, "ada"), ("closed", false, "bob")] {
        let hall = HallCreate {
            id: id.to_owned(),
            open,
            owner_id: Some(owner.to_owned()),
        };
        halls.create(&system, hall).await.unwrap();
        let draft = DraftCreate {
            id: id.to_owned(),
            hall_id: id.to_owned(),
        };
        drafts.create(&system, draft).await.unwrap();
    }
    let guard = guard::<Draft>(&app, EventScope::Record, &["hall_id"]);
    for user in ["ada", "bob", "eve"] {
        let cx = Cx::actor(Actor::user(user));
        for id in ["open", "closed", "none"] {
            let stored = visible(drafts.get(&cx, id).await);
            let settled = guard.settles(&cx, "hall_id", id).await.unwrap();
            assert_eq!(settled, stored, "{user} and {id}");
        }
    }
    let gates: Vec<_> = EventGuard::gates(Draft::DESC).collect();
    assert_eq!(
        (gates[0].field, gates[0].target.name, gates[0].action),
        ("hall_id", "Hall", Some("write"))
    );
    let anyone = Cx::actor(Actor::anonymous());
    assert!(guard.settles(&anyone, "id", "open").await.is_err());
    let table = app.adapters().table(Draft::DESC.storage_name).unwrap();
    assert!(EventGuard::new(table, EventScope::Record, &["id"]).is_err());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_key_has_one_spelling_in_events() {
    let (app, _) = started().await;
    let badges = guard::<Badge>(&app, EventScope::Record, &[]);
    let id = "01a21ede-f872-7161-a6c0-bf030df35f2e";
    assert!(badges.is_key(id));
    assert!(!badges.is_key(&id.to_ascii_uppercase()) && !badges.is_key(""));
    let seats = guard::<Seat>(&app, EventScope::Record, &[]);
    assert!(seats.is_key("7") && !seats.is_key("07") && !seats.is_key("x"));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_permission_admits_owners_or_all_callers() {
    let (app, caller) = started().await;
    let guard = guard::<Paper>(&app, EventScope::Collection, &[]);
    let fields: Vec<&str> = guard.fields().map(|field| field.wire).collect();
    assert_eq!(fields, ["teamId", "desk", "authorId"]);
    assert!(guard.context().contains(&CtxPath::TenantId));
    let state = |team: &str, author: &str| {
        let record = json!({ "teamId": team, "desk": "user", "authorId": author });
        guard.state(&members(record)).unwrap()
    };
    let now = app.adapters().now();
    let admitted = async |actor: Actor| {
        let request = RouteRequest::new(Paper::DESC, "list", actor);
        caller.admit(request).await.unwrap()
    };
    let ada = admitted(in_team("ada", Some("red"))).await;
    let reader = admitted(in_team("bob", Some("red")).with_roles(["reader"])).await;
    let other = admitted(in_team("eve", Some("red")).with_roles(["reader"])).await;
    let tuple = |cx: &Cx| guard.tuple(cx).unwrap();
    for (cx, own, foreign) in [(&ada, true, false), (&reader, true, true)] {
        let tuple = tuple(cx);
        assert_eq!(guard.admits(&tuple, &state("red", "ada"), now), own);
        assert_eq!(guard.admits(&tuple, &state("red", "bob"), now), foreign);
        assert!(!guard.admits(&tuple, &state("blue", "ada"), now));
    }
    // Callers with equal values are checked once.
    assert_eq!(tuple(&reader), tuple(&other));
    assert_ne!(tuple(&reader), tuple(&ada));
    // A collection has one stream for each team and desk.
    let partition = [Some("red".to_owned()), Some("user".to_owned())];
    assert_eq!(guard.owners(&state("red", "ada")), partition);
    assert_eq!(guard.owners_of_caller(&ada).unwrap(), partition);
    let nowhere = Cx::actor(in_team("ada", None));
    assert!(guard.tuple(&nowhere).is_err() && guard.owners_of_caller(&nowhere).is_err());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_state_with_an_unreadable_value_is_visible_to_no_caller() {
    let (app, _) = started().await;
    let guard = guard::<Paper>(&app, EventScope::Record, &[]);
    let valid = members(json!({ "teamId": "red", "desk": "user", "authorId": null }));
    assert!(guard.state(&valid).is_some());
    for (name, value) in [("teamId", json!(7)), ("desk", json!(["user"]))] {
        let mut invalid = valid.clone();
        invalid.insert(name.to_owned(), value);
        assert!(guard.state(&invalid).is_none(), "{name}");
        invalid.remove(name);
        assert!(guard.state(&invalid).is_none(), "{name}");
    }
    app.stop().await.unwrap();
}
