use linchpin::prelude::*;

type Text = String;

#[entity(visible(title <= now()))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: Text,
}

fn main() {}
