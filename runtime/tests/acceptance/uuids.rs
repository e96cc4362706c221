//! UUIDs are accepted in upper and lower case and stored in lower case, for requests and for calls
//! from code.

#![allow(missing_docs)] // test entities

use linchpin::Cx;
use linchpin::operation::{CustomCall, CustomStore};
use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::Server;

#[entity(unique(device), routes(auth = none), pagination(default = 10, max = 50))]
#[derive(Clone, Debug)]
pub struct Badge {
    #[field(primary, format = "uuid")]
    pub id: String,
    #[field(format = "uuid", filterable)]
    pub device: String,
    #[field(each(format = "uuid"))]
    pub doors: Vec<String>,
}

#[operation(kind = "lookup", fields(device = param(device)), returns = "one")]
pub const OF_DEVICE: Operation<Badge>;

#[operation(kind = "field_update", set(device))]
pub const PUT_ON: Operation<Badge>;

#[operation(kind = "upsert", match(device), set(doors), on_create(id = uuid()))]
pub const ISSUE: Operation<Badge>;

/// Returns the badge with this id, in upper or lower case.
#[operation(
    kind = "custom",
    http(method = "GET"),
    params(key: String),
    output = Badge,
    handler(memory = shown, sqlite = shown, postgres = shown),
    route(auth = none),
)]
pub const SHOWN: Operation<Badge>;

#[allow(clippy::unused_async)] // functions of custom operations are async by their signature
async fn shown<S: CustomStore>(_: CustomCall<Badge, S>, key: String) -> linchpin::Result<String> {
    Ok(key)
}

static BADGES: Package = package!(
    name = "badges",
    entities = [entity(Badge, [OF_DEVICE, PUT_ON, ISSUE, SHOWN])]
);

cases!(&super::BADGES => uuids_ignore_case_in_requests_and_in_code);

const ID: &str = "0193E7A0-0000-7000-8000-00000000000A";
const DEVICE: &str = "0193E7A0-0000-7000-8000-00000000000B";
const OTHER: &str = "0193E7A0-0000-7000-8000-00000000000C";

async fn uuids_ignore_case_in_requests_and_in_code(s: &Server) {
    let lower = str::to_ascii_lowercase;
    let (badges, cx) = (s.running().adapter::<Badge>().unwrap(), Cx::system("test"));
    let new = BadgeCreate {
        id: ID.to_owned(),
        device: DEVICE.to_owned(),
        doors: Some(vec![OTHER.to_owned()]),
    };
    let created = badges.create(&cx, new).await.unwrap();
    assert_eq!(
        (created.id, created.device, created.doors),
        (lower(ID), lower(DEVICE), vec![lower(OTHER)])
    );
    // Lookups by an upper-case UUID find the record.
    assert!(badges.get(&cx, ID).await.unwrap().is_some());
    assert!(badges.of_device(&cx, DEVICE).await.unwrap().is_some());
    let query = BadgeListQuery::new().filter(badge::device.eq(DEVICE.to_owned()));
    assert_eq!(badges.list(&cx, query).await.unwrap().items.len(), 1);
    assert_eq!(
        badges.put_on(&cx, ID, OTHER).await.unwrap().device,
        lower(OTHER)
    );
    assert_eq!(
        s.get(&format!("/badges/shown?key={ID}")).await.json()["id"],
        lower(ID)
    );
    let patch = BadgePatch {
        device: Some(DEVICE.to_owned()),
        ..Default::default()
    };
    assert_eq!(
        badges.update(&cx, ID, patch, None).await.unwrap().device,
        lower(DEVICE)
    );
    let again = badges
        .issue(&cx, DEVICE, [OTHER, ID].map(str::to_owned).to_vec())
        .await
        .unwrap();
    assert_eq!(
        (again.id, again.doors),
        (lower(ID), vec![lower(OTHER), lower(ID)])
    );
    let conflict = badges
        .create(
            &cx,
            BadgeCreate {
                id: OTHER.to_owned(),
                device: DEVICE.to_owned(),
                doors: None,
            },
        )
        .await
        .unwrap_err();
    assert_eq!(conflict.code(), linchpin::Code::Conflict);
    badges.delete(&cx, ID, None).await.unwrap();
    assert_eq!(
        s.post("/badges", json!({"id": ID, "device": DEVICE, "doors": []}))
            .await
            .json()["id"],
        lower(ID)
    );
    // An invalid UUID is refused.
    let invalid = BadgeCreate {
        id: OTHER.to_owned(),
        device: "0193E7A".to_owned(),
        doors: None,
    };
    assert_eq!(
        badges.create(&cx, invalid).await.unwrap_err().code(),
        linchpin::Code::ValidationFailed
    );
}
