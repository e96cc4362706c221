//! Permissions, roles, guards and middleware of routes.
use linchpin::axum::response::Response;
use linchpin::prelude::*;

pub type Id = String;

pub mod roles {
    #[derive(Clone, Copy, linchpin::Roles)]
    pub enum Role {
        Admin,
        #[role(rename = "chief editor")]
        ChiefEditor,
        r#Type,
    }
}

mod around {
    use super::*;

    pub async fn audit(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
        let _ = call.actor();
        next.await
    }

    // A middleware need not be an async function: it may return any future of a response.
    pub fn through<'a>(_: RouteCall<'a>, next: Next<'a>) -> Next<'a> {
        next
    }
}

#[entity(routes(
    permission(requires = "write", or = ["moderate"], owner_field = author_id, resource = container, hide),
    guards(require_mfa, require_step_up(300), require_plan("pro"), r#type),
    middleware = [around::audit, around::through, "audit"],
    create(roles = [roles::Role::Admin, roles::Role::ChiefEditor]),
    list(permission(requires = "read"), roles = [self::roles::Role::r#Type]),
    get(permission(requires = "read", owner_field = optional_id)),
    update(permission(requires = "write", owner_field = uuid_id, resource = text, rank = optional_id), middleware = ["audit"]),
    // This permission does not use the private field.
    delete(permission(requires = "write", owner_field = alias_id), roles = ["admin"]),
))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: String,
    pub optional_id: Option<String>,
    pub uuid_id: linchpin::Uuid,
    pub alias_id: Id,
    pub container: i64,
    pub text: Option<String>,
    #[field(private)]
    pub hash: Option<String>,
}

// `owner_field` does not apply to a `derive`: only the permission evaluator can grant the call.
#[operation(kind = "derive", source(Post, select = text), merge = "union", route(permission(requires = "read", hide)))]
pub const TEXTS: Operation<Post>;

#[operation(kind = "derive", source(Post, select = text), merge = "union")]
pub const INHERITS: Operation<Post>;

#[operation(kind = "increment", field = container, route(permission(requires = "write", rank = alias_id), roles = [roles::Role::Admin], guards(require_mfa)))]
pub const BUMP: Operation<Post>;

#[route(entity = Post, method = "GET", path = "feed", permission(requires = "read"), middleware = [around::audit])]
async fn feed() -> &'static str {
    ""
}

static PACKAGE: Package = package!(
    name = "p",
    entities = [entity(Post, [TEXTS, INHERITS, BUMP, feed])]
);

#[test]
fn roles_have_their_declared_names() {
    assert_eq!(
        <roles::Role as Roles>::NAMES,
        ["admin", "chief editor", "type"]
    );
    assert_eq!(PACKAGE.name, "p");
}
