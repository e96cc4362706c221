//! The command `rekey`. A plugin or the app can replace it with a command of the same name that does
//! more.

use std::sync::Arc;

use super::checks::{self, startup};
use super::plugin::Command;
use super::setup::PostCx;
use crate::seal::{Rekey, Resealed};
use crate::{Adapters, BoxFuture, Code, Cx, Error, Result};

/// The name of the command.
pub(super) const NAME: &str = "rekey";

pub(super) fn command() -> Command {
    let about = "encrypts stored secrets with the newest data key, and reports which values need a former key";
    Command::over(NAME, about, run)
}

/// Checks that no registered value needs a key that is not configured, and provides [`Rekey`] for
/// commands.
pub(super) fn prepare(post: &mut PostCx) -> BoxFuture<'_, Result<()>> {
    // Boxed, to keep the future of a start small.
    Box::pin(async {
        if let Some(keys) = &post.data_keys {
            let reseals = std::mem::take(&mut post.registrar.reseals);
            post.adapters.provide(Rekey::new(Arc::clone(keys), reseals));
            let rekey = post.adapters.provided::<Rekey>()?;
            let missing = |e| startup(checks::error_text(&e));
            rekey.check(&Cx::system(NAME)).await.map_err(missing)?;
        }
        Ok(())
    })
}

async fn run(adapters: Adapters, arguments: Vec<String>) -> Result<String> {
    if let [other, ..] = arguments.as_slice() {
        let text = format!("unknown argument `{other}`\nusage: {NAME}");
        return Err(Error::new(Code::Internal, text));
    }
    match adapters.provided::<Rekey>() {
        Ok(rekey) => Ok(report(&rekey.run(&Cx::system(NAME)).await?)),
        Err(_) => Err(Error::new(
            Code::Internal,
            "this app has no data keys: set LINCHPIN_DATA_KEYS",
        )),
    }
}

/// The output of the command.
fn report(done: &Resealed) -> String {
    let mut lines = vec![format!(
        "{} stored values were encrypted with the newest key",
        done.rewritten
    )];
    if done.needed.is_empty() {
        lines.push("no former key is needed any more: former data keys can be removed".to_owned());
    }
    for (kid, names) in &done.needed {
        lines.push(format!("still needed: {kid}, by {}", names.join(", ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
