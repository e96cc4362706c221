//! The members of companies and their roles.

use linchpin::axum;
use linchpin::axum::extract::Path;
use linchpin::prelude::*;
use linchpin::{BoxFuture, Code};
use linchpin_auth::{AuthService, TenantCx, TenantResolver};

use crate::{
    Company, CompanyAdapter, CompanyCreate, Membership, MembershipAdapter, MembershipCreate, Role,
    Seat, SeatCreate, SeatPatch,
};

/// The membership of a user, in the company that the call acts in.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "one", strict_params, route(disabled))]
pub const SEAT_OF: Operation<Membership>;

/// Resolves the company that a user works in, and the role there.
pub struct Companies;

impl TenantResolver for Companies {
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let seat = cx
                .services
                .get::<Seat>()?
                .get(&Cx::system("where somebody works"), &*cx.user_id)
                .await?;
            let Some(seat) = seat else { return Ok(None) };
            // The membership may have ended after the user entered the company.
            let member = membership(&cx.services, &cx.user_id, &seat.company_id).await?;
            Ok(member.map(|member| member.company_id))
        })
    }

    fn roles<'a>(
        &'a self,
        cx: &'a TenantCx,
        tenant: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            let member = membership(&cx.services, &cx.user_id, tenant).await?;
            Ok(member
                .map(|member| member.role.as_str().to_owned())
                .into_iter()
                .collect())
        })
    }
}

/// Reads the membership of a user in a company, as the application.
async fn membership(adapters: &Adapters, user: &str, company: &str) -> Result<Option<Membership>> {
    let cx = Cx::system("look for a membership").within(crate::membership::company_id, company);
    adapters.get::<Membership>()?.seat_of(&cx, user).await
}

/// The input for a new company.
#[derive(Embedded, Clone, Debug)]
pub struct Founding {
    #[field(length = 1..=80)]
    pub name: String,
}

/// A company by its key.
#[derive(Embedded, Clone, Debug)]
pub struct Founded {
    pub id: String,
}

/// Founds a company. The caller becomes its owner and enters it.
#[route(entity = Company, method = "POST", path = "found")]
pub async fn found(
    companies: CompanyAdapter,
    adapters: Adapters,
    cx: Cx,
    axum::Json(founding): axum::Json<Founding>,
) -> Result<axum::Json<Founded>> {
    let user = cx.get_actor_id().ok_or_else(Error::unauthorized)?;
    // The caller has no company yet, or another one, so the application writes the records. All
    // writes succeed, or none.
    let company = Cx::system("found a company")
        .transaction(async |cx| {
            let company = companies
                .create(
                    cx,
                    CompanyCreate {
                        name: founding.name,
                    },
                )
                .await?;
            let within = cx
                .clone()
                .within(crate::membership::company_id, &*company.id);
            let owner = MembershipCreate {
                user_id: user.to_owned(),
                role: Role::Owner,
            };
            adapters.get::<Membership>()?.create(&within, owner).await?;
            store_seat(&adapters, cx, user, &company.id).await?;
            Ok(company)
        })
        .await?;
    adapters.provided::<AuthService>()?.membership_changed(user);
    Ok(axum::Json(Founded { id: company.id }))
}

/// Enters another company that the caller is a member of.
#[route(entity = Company, method = "POST", path = "{id}/enter")]
pub async fn enter(adapters: Adapters, cx: Cx, Path(id): Path<String>) -> Result<()> {
    let user = cx.get_actor_id().ok_or_else(Error::unauthorized)?;
    // A caller who is not a member gets 404, which does not reveal whether the company exists.
    membership(&adapters, user, &id)
        .await?
        .ok_or_else(Error::not_found)?;
    store_seat(&adapters, &Cx::system("enter a company"), user, &id).await?;
    adapters.provided::<AuthService>()?.membership_changed(user);
    Ok(())
}

/// Stores the company that a user has entered.
async fn store_seat(adapters: &Adapters, cx: &Cx, user: &str, company: &str) -> Result<()> {
    let seats = adapters.get::<Seat>()?;
    if seats.get(cx, user).await?.is_some() {
        seats
            .update(
                cx,
                user,
                SeatPatch {
                    company_id: Some(company.to_owned()),
                },
                None,
            )
            .await?;
    } else {
        seats
            .create(
                cx,
                SeatCreate {
                    user_id: user.to_owned(),
                    company_id: company.to_owned(),
                },
            )
            .await?;
    }
    Ok(())
}

/// The person to add to the company, and the role.
#[derive(Embedded, Clone, Debug)]
pub struct Invitation {
    #[field(format = "email")]
    pub email: String,
    pub role: Role,
}

/// A membership by its key.
#[derive(Embedded, Clone, Debug)]
pub struct Invited {
    pub id: String,
}

/// Adds a user with an account to the caller's company.
#[route(entity = Membership, method = "POST", path = "invite", roles = ["owner"])]
pub async fn invite(
    members: MembershipAdapter,
    adapters: Adapters,
    cx: Cx,
    axum::Json(invitation): axum::Json<Invitation>,
) -> Result<axum::Json<Invited>> {
    let accounts = adapters.provided::<AuthService>()?;
    let account = accounts.account_by_identifier(&invitation.email).await?;
    let account = account
        .ok_or_else(|| Error::invalid(Problem::new("email", "reference", "has no account")))?;
    let member = members
        .create(
            &cx,
            MembershipCreate {
                user_id: account.id,
                role: invitation.role,
            },
        )
        .await?;
    accounts.membership_changed(&member.user_id);
    Ok(axum::Json(Invited { id: member.id }))
}

/// Ends a membership. From the next request on, the user has no access to the company.
#[route(entity = Membership, method = "POST", path = "{id}/end", roles = ["owner"])]
pub async fn end(
    members: MembershipAdapter,
    adapters: Adapters,
    cx: Cx,
    Path(id): Path<String>,
) -> Result<()> {
    let member = members.get(&cx, id).await?.ok_or_else(Error::not_found)?;
    if cx.get_actor_id() == Some(&member.user_id) {
        return Err(Error::new(
            Code::Conflict,
            "Owners cannot end their own membership",
        ));
    }
    members.delete(&cx, member.id, None).await?;
    adapters
        .provided::<AuthService>()?
        .membership_changed(&member.user_id);
    Ok(())
}
