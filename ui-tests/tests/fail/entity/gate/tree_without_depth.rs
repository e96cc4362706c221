use linchpin::prelude::*;

// A gate to the entity itself without `depth`.
#[entity(gate(parent_id -> Folder))]
pub struct Folder {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(immutable)]
    pub parent_id: Option<String>,
}

// A tree whose records all need a parent, and could be moved below themselves.
#[entity(gate(parent_id -> Self, depth = 9))]
pub struct Page {
    #[field(primary, default = uuid)]
    pub id: String,
    pub parent_id: String,
}

// An entity with two gates to itself.
#[entity(gate(parent_id -> Reply, depth = 0), gate(quoted_id -> Reply, depth = "2"))]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(immutable)]
    pub parent_id: Option<String>,
    #[field(immutable)]
    pub quoted_id: Option<String>,
}

fn main() {}
