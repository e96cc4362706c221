use linchpin::prelude::*;

#[derive(Clone, Debug, Embedded)]
pub struct Revision {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author: Usr,
    pub number: u32,
    pub seen: std::collections::HashMap<String, String>,
    pub size: Option<f32>,
}

fn main() {}
