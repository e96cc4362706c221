/// Greets.
#[operation(kind = "custom", http(method = "GET", path = "ping/{who}"), params(who: String), output = String, handler(memory = ping, sqlite = ping))]
pub const PING: Operation<Note>;
