//! Tests of rooms whose record keys have several spellings.

use super::*;

/// A lane with a number as its key.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Lane {
    #[field(primary)]
    pub id: i64,
    pub name: String,
}

/// A ticket with a uuid as its key. Routes also accept the key in upper case.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Ticket {
    #[field(primary, format = "uuid")]
    pub id: String,
    pub name: String,
}

pub(crate) struct LaneLive;
pub(crate) struct TicketLive;

static LANE_VARIANTS: [VariantDesc; 1] =
    [
        VariantDesc::new("Lane", Mark::On(&[On::new(Lane::DESC, &[Change::Updated])]))
            .payload(Payload::Record),
    ];
static TICKET_VARIANTS: [VariantDesc; 1] = [VariantDesc::new(
    "Ticket",
    Mark::On(&[On::new(Ticket::DESC, &[Change::Updated])]),
)
.payload(Payload::Record)];
static LANE_LIVE: ChannelDesc =
    ChannelDesc::new("LaneLive", "live", Lane::DESC).variants(&LANE_VARIANTS);
static TICKET_LIVE: ChannelDesc =
    ChannelDesc::new("TicketLive", "live", Ticket::DESC).variants(&TICKET_VARIANTS);

impl Channel for LaneLive {
    type Of = Lane;
    const DESC: &'static ChannelDesc = &LANE_LIVE;
    fn encode(&self) -> Result<Encoded> {
        Err(Error::internal("nothing is published"))
    }
}

impl Channel for TicketLive {
    type Of = Ticket;
    const DESC: &'static ChannelDesc = &TICKET_LIVE;
    fn encode(&self) -> Result<Encoded> {
        Err(Error::internal("nothing is published"))
    }
}

const TICKET: &str = "0f8c2f0e-6a3c-4df5-9a63-0d3c8c2f11aa";

#[tokio::test]
async fn all_spellings_of_a_key_lead_to_one_room() {
    let node = node().await;
    let cx = Cx::system("a test");
    let lane = LaneCreate {
        id: 7,
        name: "left".to_owned(),
    };
    let lanes = node.app.adapter::<Lane>().unwrap();
    lanes.create(&cx, lane).await.unwrap();
    let ticket = TicketCreate {
        id: TICKET.to_owned(),
        name: "first".to_owned(),
    };
    let tickets = node.app.adapter::<Ticket>().unwrap();
    tickets.create(&cx, ticket).await.unwrap();
    let alice = connect(&node, "1", "alice");
    let upper = TICKET.to_uppercase();
    let others = [
        "lanes:07:live".to_owned(),
        "lanes:%2B7:live".to_owned(),
        "lanes:7.0:live".to_owned(),
        "lanes:%207:live".to_owned(),
        "lanes:7e0:live".to_owned(),
        format!("tickets:{upper}:live"),
        format!("tickets:{}:live", TICKET.replace('-', "")),
        format!("tickets:%7B{TICKET}%7D:live"),
    ];
    for room in &others {
        assert_eq!(node.join(&alice, room).await, "not_found", "{room}");
    }
    // Other spellings of the room's name are refused, too.
    for room in [
        "lanes:%37:live".to_owned(),
        "Lanes:7:live".to_owned(),
        "lanes:7:Live".to_owned(),
        "lanes:7:live ".to_owned(),
        format!("tickets:{}:live", TICKET.replace("0f", "%30f")),
    ] {
        assert_eq!(node.join(&alice, &room).await, "invalid_room", "{room}");
    }
    assert!(node.hub.live_rooms().is_empty());
    assert_eq!(next_event(&alice), "");
    for room in ["lanes:7:live".to_owned(), format!("tickets:{TICKET}:live")] {
        assert_eq!(node.join(&alice, &room).await, "Fresh", "{room}");
        // Another member is in the same room.
        let bob = connect(&node, &room, "bob");
        assert_eq!(node.join(&bob, &room).await, "Fresh");
    }
    assert_eq!(node.hub.live_rooms().len(), 2);
    node.app.stop().await.unwrap();
}
