#![deny(dead_code)]

use linchpin::prelude::*;
use linchpin_realtime::channel;
use linchpin_realtime::channel::{Declared, Room};

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[channel(of = Container, name = "live")]
enum ContainerLive {
    #[on(Container::updated)]
    Container(Container),
    #[incoming(vote)]
    Vote(Vote),
    #[publish]
    Announcement { text: String },
}

#[channel(of = Container, name = "listed")]
enum ContainerListed {
    #[on(Container::updated)]
    Container(Container),
    #[publish]
    Announcement { text: String },
}

#[derive(Embedded)]
struct Vote {
    pub stars: i64,
}

async fn vote(_: &Cx, _: Room<ContainerLive>, vote: Vote) -> Result<i64> {
    Ok(vote.stars)
}

fn main() {
    let _ = Declared::default().channel::<ContainerListed>();
}
