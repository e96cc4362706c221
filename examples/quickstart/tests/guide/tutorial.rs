//! The tutorial at the beginning of the guide: a small app with its declarations and a test.

use linchpin::prelude::*;
use linchpin_auth::Auth;

/// A wish: a book that a user wants to read.
#[entity(scope(reader_id = ctx(actor.id)), index(reader_id, title), sort = asc(title))]
#[derive(Clone, Debug)]
pub struct Wish {
    #[field(primary, default = uuid)]
    pub id: String,
    pub reader_id: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(default = false, read_only)]
    pub read: bool,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Marks the book as read.
#[operation(kind = "transition", field = read, from = false, to = true)]
pub const FINISH: Operation<Wish>;

/// Counts the wishes of all users.
#[operation(
    kind = "aggregate",
    compute(wishes = count(), read = count(read == true)),
    unscoped = "librarians see what is wanted",
    route(roles = ["librarian"]),
)]
pub const DEMAND: Operation<Wish>;

/// Wishes and their operations.
pub static WISHES: Package = package!(name = "wishes", entities = [entity(Wish, [FINISH, DEMAND])]);

/// The app. Its settings are arguments, so that a test can use other ones.
fn app(config: Config, auth: Auth) -> App {
    App::new(config)
        .plugin(auth.roles(["librarian"]))
        .package(&WISHES)
}

#[allow(dead_code)] // the test does not call it
#[tokio::main]
async fn main() -> Result<()> {
    app(Config::from_env()?, Auth::from_env()).run().await
}

#[cfg(test)]
mod tests {
    use linchpin::testing::Client;
    use linchpin_auth::{AuthService, NewUser};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn users_see_only_their_own_wishes() -> Result<()> {
        let config = Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it");
        let app = app(config, Auth::new()).start().await?;
        let accounts = app.adapters().provided::<AuthService>()?;
        let caller = async |new: NewUser| -> Result<Client> {
            let account = accounts.create_user(new).await?;
            Client::new(&app).bearer(accounts.sign_in(&account.id).await?.expose())
        };
        let ann = caller(NewUser::new("ann@example.com")).await?;
        let bob = caller(NewUser::new("bob@example.com").roles(["librarian"])).await?;

        let wish = ann.post("/wishes", json!({ "title": "Emma" })).await?;
        assert_eq!(wish.status(), 201, "{}", wish.text()?);
        let path = format!(
            "/wishes/{}",
            wish.json()?["id"].as_str().unwrap_or_default()
        );
        assert_eq!(
            (
                ann.get(&path).await?.status(),
                bob.get(&path).await?.status()
            ),
            (200, 404)
        );
        assert_eq!(Client::new(&app).get("/wishes").await?.status(), 401);

        assert_eq!(
            ann.post(&format!("{path}/finish"), ()).await?.json()?["read"],
            true
        );
        assert_eq!(
            ann.post(&format!("{path}/finish"), ()).await?.json()?["code"],
            "invalid_transition"
        );

        assert_eq!(ann.get("/wishes/demand").await?.status(), 403);
        assert_eq!(
            bob.get("/wishes/demand").await?.json()?,
            json!({ "wishes": 1, "read": 1 })
        );
        app.stop().await
    }
}
