//! Keys of stored data: whether any data needs a missing key, and encryption of all data with the
//! newest key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use linchpin::entity::Comparand;
use linchpin::filter::Filter;
use linchpin::prelude::*;
use linchpin::seal::{Rekey, Reseal};
use linchpin::{BoxFuture, Code, Cx, PostCx};
use serde_json::json;

use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::keys::uses::{DataKeyUse, DataKeyUseCreate};
use crate::mail::MailKind;
use crate::mfa::entity::{RecoveryCode, factor, recovery_code};
use crate::onetime::entity::one_time;
use crate::outbox::entity::outbox;

/// Number of records in one read.
const PAGE: u32 = 100;

/// The result of a re-encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rekeyed {
    /// Number of values that were encrypted with the newest key, those of other plugins included.
    pub rewritten: u64,
    /// Former keys that are still needed. The store contains only a MAC of each recovery code, so
    /// the code cannot be converted to another key. A key is needed until its codes are used,
    /// replaced or ended.
    pub needed: Vec<String>,
    /// Number of unused recovery codes that need one of these keys.
    pub codes: u64,
    /// Identifiers of the accounts with such codes.
    pub accounts: Vec<String>,
    /// Number of codes that were ended.
    pub ended: u64,
    /// Names of other stored values that need one of these keys, such as those of other plugins.
    pub others: Vec<String>,
}

impl Rekeyed {
    /// Describes the former keys, and the codes, accounts and other values that need them. `None`
    /// if no former key is needed.
    pub(crate) fn dependents(&self) -> Option<String> {
        if self.needed.is_empty() {
            return None;
        }
        let mut by = self.others.clone();
        if self.codes > 0 {
            let (codes, accounts) = (self.codes, self.accounts.join(", "));
            by.insert(0, format!("{codes} unused recovery codes of {accounts}"));
        }
        let keys = self.needed.join(", ");
        Some(if by.is_empty() {
            keys
        } else {
            format!("{keys}, by {}", by.join(", "))
        })
    }
}

/// A filter for values encrypted with a key: an envelope starts with the name of its key. `from`
/// and `to` are the same field.
fn encrypted_with<F: Field, M>(from: F, to: F, kid: &str) -> Filter
where
    String: Comparand<F::Ty, M>,
{
    let begin = format!("v1.{kid}.");
    // `/` is the character after `.`.
    let end = format!("v1.{kid}/");
    from.gte(begin).and(to.lt(end))
}

/// Registers the encrypted fields and the recovery codes for `rekey`.
///
/// # Errors
/// If an entity is missing.
pub(crate) fn register(core: &Arc<Core>, cx: &mut PostCx) -> Result<()> {
    cx.registrar().reseal(Codes(Arc::clone(core)));
    cx.sealed_field(outbox::sealed)?;
    cx.sealed_field(one_time::sealed)?;
    cx.sealed_field(factor::sealed)
}

/// The recovery codes, of which only MACs are stored. This type also checks whether any stored
/// value of the app needs a missing key, because this plugin records the keys that were used.
struct Codes(Arc<Core>);

/// The name of the recovery codes in messages.
const CODES: &str = "auth_recovery_codes.mac";

impl Reseal for Codes {
    fn name(&self) -> &'static str {
        CODES
    }

    fn reseal<'a>(&'a self, _: &'a Cx, _: &'a str) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async { Ok(0) })
    }

    fn needs<'a>(&'a self, cx: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let found = self
                .0
                .parts
                .codes
                .list(cx, codes_with(kid).limit(1))
                .await?;
            Ok(!found.items.is_empty())
        })
    }

    fn gone<'a>(&'a self, _: &'a Cx) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async { self.0.check_data_keys().await.map(|()| None) })
    }
}

impl Core {
    /// Stores the name of the newest key. Checks whether any data, including data of other plugins,
    /// needs a key that is no longer configured. It only queries by the names of such keys, so only
    /// the first start after the removal of a key may read all records.
    ///
    /// # Errors
    /// If data needs a missing key.
    pub(crate) async fn check_data_keys(&self) -> Result<()> {
        let cx = Client::of_app(self.now()).cx();
        let rekey = self.adapters.provided::<Rekey>()?;
        let uses = self.adapters.get::<DataKeyUse>()?;
        let used = uses.list(&cx, ListQuery::new().limit(PAGE)).await?.items;
        for gone in used.iter().filter(|used| !self.parts.keys.knows(&used.id)) {
            if !rekey.needed(&cx, &gone.id).await?.is_empty() {
                return Err(Error::new(
                    Code::Internal,
                    format!(
                        "stored data is encrypted with key `{}`, which is neither in `security.dataKeys` nor derived from a secret in `security.signing.secret`: add \
                         the key or its secret again, after the newest one, and remove it only after the command `rekey` reports that it is no longer needed",
                        gone.id
                    ),
                ));
            }
            ignoring(
                Code::NotFound,
                uses.delete(&cx, gone.id.as_str(), None).await,
            )?;
        }
        let newest = self.parts.keys.kid();
        if !used.iter().any(|used| used.id == newest) {
            let new = DataKeyUseCreate {
                id: newest.to_owned(),
                since: cx.now(),
            };
            ignoring(Code::Conflict, uses.create(&cx, new).await.map(drop))?;
        }
        Ok(())
    }

    /// Encrypts all data under former keys, including data of other plugins, with the newest key.
    /// If `ends_codes` is true, it ends the recovery codes that need a former key; otherwise it
    /// reports them. It can be interrupted and run again.
    ///
    /// # Errors
    /// If the store fails, or if a value cannot be decrypted.
    pub(crate) async fn rekey(&self, ends_codes: bool) -> Result<Rekeyed> {
        let client = Client::of_app(self.now());
        let cx = client.cx();
        let uses = self.adapters.get::<DataKeyUse>()?;
        let rekey = self.adapters.provided::<Rekey>()?;
        let resealed = rekey.run(&cx).await?;
        let mut done = Rekeyed {
            rewritten: resealed.rewritten,
            ..Rekeyed::default()
        };
        let newest = self.parts.keys.kid();
        let used = uses.list(&cx, ListQuery::new().limit(PAGE)).await?.items;
        let used = used.into_iter().map(|used| used.id);
        let mut former: BTreeSet<String> = resealed.needed.into_keys().chain(used).collect();
        former.remove(newest);
        for kid in former {
            let holders = self.holders_of_codes(&cx, &kid).await?;
            for (id, codes) in holders {
                let owner = self.users.get(&cx, id.as_str()).await?;
                if ends_codes {
                    done.ended += self
                        .end_codes(&cx, &client, &id, owner.as_ref(), &kid)
                        .await?;
                    continue;
                }
                done.codes += codes;
                let account = owner.map_or(id, |owner| owner.identifier_display);
                if !done.accounts.contains(&account) {
                    done.accounts.push(account);
                }
            }
            let names = rekey.needed(&cx, &kid).await?;
            if !names.is_empty() {
                done.needed.push(kid);
            }
            for name in names.into_iter().filter(|name| name != CODES) {
                if !done.others.contains(&name) {
                    done.others.push(name);
                }
            }
        }
        Ok(done)
    }

    /// The accounts with unused recovery codes under a key, each with the number of these codes.
    async fn holders_of_codes(&self, cx: &Cx, kid: &str) -> Result<BTreeMap<String, u64>> {
        let mut holders = BTreeMap::new();
        let mut page = self
            .parts
            .codes
            .list(cx, codes_with(kid).limit(PAGE))
            .await?;
        loop {
            for code in page.items {
                *holders.entry(code.user_id).or_default() += 1;
            }
            let Some(cursor) = page.next_cursor else {
                return Ok(holders);
            };
            page = self
                .parts
                .codes
                .list(cx, codes_with(kid).limit(PAGE).cursor(cursor))
                .await?;
        }
    }

    /// Ends the unused recovery codes of an account under a key, and mails the owner.
    async fn end_codes(
        &self,
        cx: &Cx,
        client: &Client,
        id: &str,
        owner: Option<&User>,
        kid: &str,
    ) -> Result<u64> {
        cx.transaction(async |cx| {
            let mut ended = 0;
            let of_key = encrypted_with(recovery_code::mac, recovery_code::mac, kid);
            let under_key = ListQuery::new()
                .filter(of_key.and(recovery_code::user_id.eq(id.to_owned())))
                .limit(u32::MAX);
            for code in self.parts.codes.list(cx, under_key).await?.items {
                // A concurrent request may use the code at this moment.
                ended += deleted_count(self.parts.codes.delete(cx, code.id, None).await)?;
            }
            if ended > 0 {
                let details = json!({ "reason": "rekeyed", "count": ended });
                self.audit(
                    cx,
                    client,
                    AuditEvent::about("auth:mfa.recovery_ended", id).details(details),
                )
                .await?;
                if let Some(owner) = owner {
                    self.parts
                        .notice(cx, client, owner, MailKind::RecoveryCodesEnded)
                        .await?;
                }
            }
            Ok(ended)
        })
        .await
    }
}

/// The unused recovery codes whose MAC was computed with a key.
fn codes_with(kid: &str) -> ListQuery<RecoveryCode> {
    ListQuery::new().filter(encrypted_with(recovery_code::mac, recovery_code::mac, kid))
}

/// 1 if the record was deleted; 0 if another request deleted or changed it first.
fn deleted_count<T>(done: Result<T>) -> Result<u64> {
    match done {
        Ok(_) => Ok(1),
        Err(error) if matches!(error.code(), Code::NotFound | Code::PreconditionFailed) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Maps an error with this code to success.
fn ignoring(code: Code, done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.code() == code => Ok(()),
        done => done,
    }
}
