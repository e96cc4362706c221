//! A help desk for many companies. Each sees only its own tickets, and the roles of a member are
//! valid only in that company.

mod members;
mod report;

use std::sync::Arc;

use linchpin::prelude::*;
use linchpin_auth::Auth;

use members::{Companies, SEAT_OF, end, enter, found, invite};

/// A customer: a tenant of this app.
#[entity(routes(
    list(disabled),
    get(disabled),
    create(disabled),
    update(disabled),
    delete(disabled)
))]
#[derive(Clone, Debug)]
pub struct Company {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=80)]
    pub name: String,
}

/// The role of a member in a company.
#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Role {
    Agent,
    Owner,
}

/// A user's membership in a company. Members can list all; owners add and remove members.
#[entity(
    tenant(company_id),
    unique(user_id),
    routes(get(disabled), create(disabled), update(disabled), delete(disabled))
)]
#[derive(Clone, Debug)]
pub struct Membership {
    #[field(primary, default = uuid)]
    pub id: String,
    pub company_id: String,
    pub user_id: String,
    pub role: Role,
}

/// The current company of a user.
#[entity(routes(disabled))]
#[derive(Clone, Debug)]
pub struct Seat {
    #[field(primary)]
    pub user_id: String,
    pub company_id: String,
}

/// A question of a member to the company.
#[entity(tenant(company_id), sort = asc(created_at), routes(delete(roles = ["owner"])))]
#[derive(Clone, Debug)]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    pub company_id: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Companies, their members, and the questions to them.
pub static DESK: Package = package!(
    name = "desk",
    entities = [
        entity(Company, [found, enter]),
        entity(Membership, [SEAT_OF, invite, end]),
        entity(Seat, []),
        entity(Ticket, []),
    ],
);

#[tokio::main]
async fn main() -> Result<()> {
    let auth = Auth::from_env()
        .roles(["agent", "owner"])
        .configure(|config| config.auth.tenants = Some(Arc::new(Companies)));
    App::new(Config::from_env()?)
        .plugin(auth)
        .package(&DESK)
        .command("report", "counts the tickets of each company", report::run)
        .run()
        .await
}
