//! A command with the rights of the application (`Cx::system`): it reads the tickets of all
//! companies, one after the other.

use linchpin::prelude::*;

use crate::{Company, Ticket, ticket};

/// Counts the tickets of each company.
pub async fn run(adapters: Adapters, _: Vec<String>) -> Result<String> {
    let (companies, tickets, cx) = (
        adapters.get::<Company>()?,
        adapters.get::<Ticket>()?,
        Cx::system("report"),
    );
    let mut lines = Vec::new();
    for company in companies.list(&cx, ListQuery::new()).await?.items {
        let within = cx.clone().within(ticket::company_id, &*company.id);
        let page = tickets.list(&within, ListQuery::new()).await?;
        lines.push(format!(
            "{}: {}{}",
            company.name,
            page.items.len(),
            if page.has_more { " or more" } else { "" }
        ));
    }
    lines.sort();
    Ok(lines.join("\n"))
}
