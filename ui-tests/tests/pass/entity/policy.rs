//! Rate limits, idempotency, events, inputs and outputs of routes.
use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    rate_limit = "1000/min",
    // It has no effect on routes that only read.
    idempotent,
    event(expose = "records"),
    output(id, title, slug),
    create(input(title, slug), rate_limit = "10/15min", summary = "Writes a post", tags("writing", "posts")),
    list(output(id), rate_limit(max = 20, window = "1s", key = ip, fail_open)),
    update(input(title), deprecated, idempotent(ttl = "10min", required), event(payload(id), include(title))),
    delete(rate_limit = "5 / h", event(name = "post.gone", payload(id))),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(immutable)]
    pub slug: String,
    #[field(private)]
    pub hash: Option<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "many", route(output(title), deprecated))]
pub const BY_SLUG: Operation<Post>;

#[operation(kind = "batch", action = "delete", filter = (slug == param(slug)), route(idempotent, event(payload(id), expose = "records")))]
pub const CLEAR: Operation<Post>;

#[route(entity = Post, method = "POST", path = "import", idempotent(required))]
async fn import() -> &'static str {
    ""
}

// Inherits `output`, which has no effect: the response contains no record.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Post>;
