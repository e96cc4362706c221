//! An evaluator that decides by the roles of the actor.

use std::sync::OnceLock;

use linchpin::http::{Inputs, OverrideCall};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::{
    AccessRequest, BoxFuture, Code, Decision, Evaluator, Plugin, PostCx, Result, Value,
};

use super::{Paper, PaperPatch, REPLACED, Thread, ThreadAdapter, ThreadPatch};

pub fn with_role_evaluator(app: App) -> App {
    app.plugin(RoleEvaluator)
        .override_operation(REPLACED, replaced)
}

/// An override without checks: the permission was checked before.
async fn replaced(call: OverrideCall) -> Result<Outcome> {
    let Inputs::Operation(args, ..) = call.inputs else {
        return Err(Error::internal("another operation"));
    };
    let Some(Some(Value::Text(id))) = args.into_iter().next() else {
        return Err(Error::internal("no id"));
    };
    let cx = Cx::system("the code of an app");
    let patch = PaperPatch {
        title: Some("replaced".to_owned()),
        ..Default::default()
    };
    call.adapters
        .get::<Paper>()?
        .update(&cx, id.clone(), patch, None)
        .await?;
    call.table
        .get(&cx, Value::Text(id), &call.form)
        .await
        .map(Outcome::Record)
}

/// Grants by the roles of the actor: `write` or `write@c1` allows, `-write@c1` denies, `banned`
/// denies with a reason, `broken` fails. `mover` moves the thread `moving` during the decision.
pub struct RoleEvaluator;

struct GrantsByRole(OnceLock<Adapters>);

impl Plugin for RoleEvaluator {
    fn name(&self) -> &'static str {
        "judge"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let adapters = OnceLock::from(cx.adapters().clone());
        Box::pin(async { cx.registrar().set_evaluator(GrantsByRole(adapters)) })
    }
}

impl Evaluator for GrantsByRole {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(async move {
            let holds = |role: &str| request.actor.roles.iter().any(|r| r == role);
            let grant = match request.resource {
                Some(Value::Text(resource)) => format!("{}@{resource}", request.action),
                Some(other) => format!("{}@{other:?}", request.action),
                None => request.action.to_owned(),
            };
            if holds("mover") {
                let threads = self.0.get().unwrap().get::<Thread>()?;
                let cx = Cx::system("moves a thread during the decision");
                if let Some(thread) = threads.by_slug(&cx, "moving").await? {
                    let patch = ThreadPatch {
                        container_id: Some(Some("c2".to_owned())),
                        ..Default::default()
                    };
                    threads.update(&cx, thread.id, patch, None).await?;
                }
            }
            if holds("broken") {
                return Err(Error::internal("the book is lost"));
            }
            Ok(if holds(&format!("-{grant}")) {
                Decision::Deny
            } else if holds("banned") {
                Decision::DenyWith(Error::new(Code::Other(403, "banned"), "You are banned"))
            } else if holds(&grant) {
                Decision::Allow
            } else {
                Decision::Abstain
            })
        })
    }

    fn knows(&self, action: &str) -> bool {
        ["paper.", "rule."]
            .iter()
            .any(|known| action.starts_with(known))
            || ["write", "moderate"].contains(&action)
    }
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(disabled))]
pub(super) const BY_SLUG_IN_CODE: Operation<Thread>;

impl ThreadAdapter {
    async fn by_slug(&self, cx: &Cx, slug: &str) -> Result<Option<Thread>> {
        self.by_slug_in_code(cx, slug).await
    }
}
