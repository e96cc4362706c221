//! Operations that name their entity by a path.
use linchpin::prelude::*;

mod blog {
    use linchpin::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
    pub enum State {
        Open,
        Closed,
    }

    #[entity(routes(auth = none))]
    pub struct Ticket {
        #[field(primary)]
        pub id: i64,
        pub state: State,
    }
}

#[operation(kind = "transition", field = state, from = blog::State::Open, to = blog::State::Closed)]
pub const CLOSE: Operation<crate::operation::path_to_entity::blog::Ticket>;

#[operation(kind = "lookup", fields(state = param(state)), returns = "many")]
pub const BY_STATE: Operation<blog::Ticket>;

pub async fn call(tickets: blog::TicketAdapter, cx: Cx) -> Result<()> {
    tickets.close(&cx, 7).await?;
    tickets
        .by_state(&cx, blog::State::Open, PageArgs::default())
        .await
        .map(drop)
}
