use linchpin::prelude::*;

#[derive(Roles)]
pub struct NoEnum;

#[derive(Roles)]
pub enum Nobody {}

#[derive(Roles)]
pub enum Role {
    Admin,
    Editor(String),
    #[role(rename = "admin")]
    Chief,
    #[role(rename = "")]
    Nameless,
    #[role(name = "x")]
    Other,
    #[role]
    Bare,
}

#[derive(Roles)]
pub enum Numbered {
    Admin = 3,
}

fn main() {}
