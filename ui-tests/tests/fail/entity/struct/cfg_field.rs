use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[cfg(test)]
    pub test_only: String,
    #[cfg_attr(not(test), field(private))]
    pub sometimes_private: String,
    #[cfg_attr(all(), cfg(test))]
    pub sometimes: String,
}

fn main() {}
