use linchpin::prelude::*;

#[entity]
pub struct E0 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E0))]
pub struct E1 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E1))]
pub struct E2 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E2))]
pub struct E3 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E3))]
pub struct E4 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E4))]
pub struct E5 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E5))]
pub struct E6 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E6))]
pub struct E7 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E7))]
pub struct E8 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

#[entity(gate(above -> E8))]
pub struct E9 {
    #[field(primary, default = uuid)]
    pub id: String,
    pub above: String,
}

// A tree of depth eight, and an entity with a gate to it.
#[entity(gate(parent_id -> Tree, depth = 8))]
pub struct Tree {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(immutable)]
    pub parent_id: Option<String>,
}

#[entity(gate(tree_id -> Tree))]
pub struct Leaf {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tree_id: String,
}

fn main() {}
