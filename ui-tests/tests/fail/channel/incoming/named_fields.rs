use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

async fn vote(_: &Cx, _: channel::Room<ContainerLive>, _: ()) -> Result<()> {
    Ok(())
}

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[incoming(vote)]
    Vote { stars: i64 },
}

fn main() {}
