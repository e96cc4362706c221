//! Calls from code: methods without a route, and transactions.

use std::fmt::Write as _;

use linchpin::prelude::*;
use linchpin::resource::Adapters;
use linchpin::{Actor, Code, Cx, Param};
use serde::{Deserialize, Serialize};

use super::fixture::related::{
    Case, CaseCreate, Finding, FindingCreate, Job, Memo, MemoCreate, Node, NodeCreate, Person,
    PersonCreate, Project, ProjectCreate, Stage, Ticket, TicketCreate,
};
use super::pool::{Random, text};

/// A call of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Claim {
        worker: String,
    },
    Lease {
        until: String,
        worker: String,
        again: String,
    },
    Hire {
        id: String,
        name: String,
    },
    Fire {
        id: String,
    },
    Dismiss {
        name: String,
    },
    Note {
        id: String,
        author: String,
    },
    Finish {
        id: String,
        by: Option<String>,
    },
    HandOver {
        done: bool,
        to: Option<String>,
    },
    Write {
        id: String,
        author: Option<String>,
    },
    Begin {
        id: String,
        lead: String,
    },
    Shut {
        id: String,
    },
    Revive {
        id: String,
    },
    Look {
        id: String,
    },
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// No transaction: each call is committed separately.
    Alone,
    /// Commit: all calls take effect.
    Commit,
    /// Rollback: no call takes effect.
    Undo,
}

impl Act {
    /// The value with its placeholders replaced by keys.
    pub fn filled(&self, fill: impl Fn(&str) -> String) -> Self {
        let mut act = self.clone();
        match &mut act {
            Self::Claim { .. } | Self::Lease { .. } | Self::Hire { .. } | Self::Dismiss { .. } => {}
            Self::Fire { id } | Self::Shut { id } | Self::Revive { id } | Self::Look { id } => {
                *id = fill(id);
            }
            Self::Note { author, .. } | Self::Begin { lead: author, .. } => *author = fill(author),
            Self::Finish { id, by } => (*id, *by) = (fill(id), by.as_deref().map(fill)),
            Self::HandOver { to, .. } => *to = to.as_deref().map(fill),
            Self::Write { author, .. } => *author = author.as_deref().map(fill),
        }
        act
    }

    async fn run(&self, adapters: &Adapters, cx: &Cx) -> Result<String> {
        let (people, memos) = (adapters.get::<Person>()?, adapters.get::<Memo>()?);
        let (projects, jobs) = (adapters.get::<Project>()?, adapters.get::<Job>()?);
        let at = |text: &str| Timestamp::parse(text).map_err(Error::internal);
        Ok(match self.clone() {
            Self::Claim { worker } => format!("{:?}", jobs.claim(cx, worker).await?),
            Self::Lease {
                until,
                worker,
                again,
            } => format!(
                "{:?}",
                jobs.lease(cx, at(&until)?, worker, at(&again)?).await?
            ),
            Self::Hire { id, name } => format!(
                "{:?}",
                people
                    .create(
                        cx,
                        PersonCreate {
                            id,
                            name: Some(name)
                        }
                    )
                    .await?
            ),
            Self::Fire { id } => format!("{:?}", people.delete(cx, id, None).await?),
            Self::Dismiss { name } => format!("{:?}", people.dismiss(cx, name).await?),
            Self::Note { id, author } => {
                let note = MemoCreate {
                    id,
                    author_id: Some(author),
                    done: None,
                    text: None,
                    secret: None,
                };
                format!("{:?}", memos.create(cx, note).await?)
            }
            Self::Finish { id, by } => format!("{:?}", memos.finish(cx, id, or_null(by)).await?),
            Self::HandOver { done, to } => {
                format!("{:?}", memos.hand_over(cx, done, or_null(to)).await?)
            }
            Self::Write { id, author } => format!(
                "{:?}",
                memos.write(cx, id, or_null(author), Param::Omitted).await?
            ),
            Self::Begin { id, lead } => {
                let project = ProjectCreate {
                    id,
                    slug: None,
                    lead_id: Some(lead),
                    stage: Some(Stage::Open),
                };
                format!("{:?}", projects.create(cx, project).await?)
            }
            Self::Shut { id } => format!("{:?}", projects.delete(cx, id, None).await?),
            Self::Revive { id } => format!("{:?}", projects.revive(cx, id).await?),
            // The transaction sees its own writes.
            Self::Look { id } => {
                format!(
                    "{:?} {:?}",
                    people.get(cx, id).await?,
                    memos.list(cx, ListQuery::default().limit(200)).await?.items
                )
            }
        })
    }
}

fn or_null(value: Option<String>) -> Param<String> {
    value.map_or(Param::Null, Param::Value)
}

/// The responses of calls, and the end of their transaction.
pub async fn run(adapters: &Adapters, cx: &Cx, acts: &[Act], end: End) -> String {
    let mut out = String::new();
    let all = async |cx: &Cx, out: &mut String| {
        for act in acts {
            match act.run(adapters, cx).await {
                Ok(text) => writeln!(out, "{text}").expect("a text"),
                Err(error) => writeln!(out, "{}", described(&error)).expect("a text"),
            }
        }
    };
    if end == End::Alone {
        all(cx, &mut out).await;
        return out;
    }
    let ended = cx.transaction(async |cx| {
        all(cx, &mut out).await;
        if end == End::Undo {
            Err(Error::new(Code::NotFound, "undone"))
        } else {
            Ok(())
        }
    });
    let ended = ended.await;
    let _ = match ended {
        Ok(()) => writeln!(out, "committed"),
        Err(error) => writeln!(out, "{}", described(&error)),
    };
    out
}

fn described(error: &Error) -> String {
    let details: Vec<String> = error
        .details()
        .iter()
        .map(|p| format!("{} {}", p.path, p.code))
        .collect();
    format!("{} {details:?}", error.code().as_str())
}

/// Creates a record of each entity whose events are compared. The event of this record marks the
/// end of a sequence. The record did not exist during the sequence, so it has no earlier event.
pub async fn create_end_marker(adapters: &Adapters, cx: &Cx, end: &str, number: usize) {
    let done: Result<()> = async {
        let id = || end.to_owned();
        adapters
            .get::<Memo>()?
            .create(
                cx,
                MemoCreate {
                    id: id(),
                    author_id: None,
                    done: None,
                    text: None,
                    secret: None,
                },
            )
            .await?;
        let project = ProjectCreate {
            id: id(),
            slug: None,
            lead_id: None,
            stage: None,
        };
        adapters.get::<Project>()?.create(cx, project).await?;
        let number = 1_000_000 + i64::try_from(number).unwrap_or_default();
        adapters
            .get::<Ticket>()?
            .create(
                cx,
                TicketCreate {
                    id: number,
                    project_id: id(),
                },
            )
            .await?;
        adapters
            .get::<Node>()?
            .create(
                cx,
                NodeCreate {
                    id: id(),
                    parent_id: None,
                    twin_id: None,
                },
            )
            .await?;
        let cx = Cx::actor(Actor {
            tenant_id: Some("end".to_owned()),
            ..Actor::user("end")
        })
        .at(cx.now());
        adapters
            .get::<Case>()?
            .create(&cx, CaseCreate { id: id() })
            .await?;
        adapters
            .get::<Finding>()?
            .create(&cx, FindingCreate { case_id: id() })
            .await?;
        Ok(())
    }
    .await;
    done.expect("the end of a sequence");
}

/// Generates a few calls. If `work` is true, most of them claim or lease jobs.
pub fn random_calls(r: &mut Random, work: bool) -> (Vec<Act>, End) {
    let end = *r.one(&[End::Alone, End::Commit, End::Commit, End::Undo]);
    let count = if end == End::Alone { 1 } else { 1 + r.below(4) };
    ((0..count).map(|_| random_call(r, work)).collect(), end)
}

fn random_call(r: &mut Random, work: bool) -> Act {
    let person = |r: &mut Random| format!("<people:{}>", r.below(3));
    let key = |r: &mut Random| (*r.one(&["k1", "k2", "k3", "k4"])).to_owned();
    let memo = |r: &mut Random| format!("<memos:{}>", r.below(3));
    match if work && r.percent(70) {
        r.below(4)
    } else {
        r.below(16)
    } {
        0..=2 => Act::Claim {
            worker: text(r).replace('\0', "0"),
        },
        3 => {
            let at = |r: &mut Random| {
                (*r.one(&[
                    "2026-03-04T05:06:07.008Z",
                    "2026-03-30T00:00:00Z",
                    "9999-12-31T23:59:59.999Z",
                ]))
                .to_owned()
            };
            Act::Lease {
                until: at(r),
                worker: key(r),
                again: at(r),
            }
        }
        4 => Act::Hire {
            id: key(r),
            name: text(r),
        },
        5 => Act::Fire { id: person(r) },
        6 => Act::Dismiss {
            name: (*r.one(&["x", "a", "b"])).to_owned(),
        },
        7 => Act::Note {
            id: key(r),
            author: person(r),
        },
        8 => Act::Finish {
            id: memo(r),
            by: r.percent(70).then(|| person(r)),
        },
        9 => Act::HandOver {
            done: r.percent(50),
            to: r.percent(60).then(|| person(r)),
        },
        10 => Act::Write {
            id: key(r),
            author: r.percent(70).then(|| person(r)),
        },
        11 => Act::Begin {
            id: key(r),
            lead: person(r),
        },
        12 => Act::Shut {
            id: format!("<projects:{}>", r.below(3)),
        },
        13 => Act::Revive {
            id: format!("<projects:{}>", r.below(3)),
        },
        _ => Act::Look { id: person(r) },
    }
}
