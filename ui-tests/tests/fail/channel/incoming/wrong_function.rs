use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[derive(Embedded)]
pub struct Vote {
    pub stars: i64,
}

async fn vote(_: &Cx, _: Vote) -> Result<i64> {
    Ok(1)
}

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[incoming(vote)]
    Vote(Vote),
}

fn main() {}
