//! The best hits after a given hit: by score, then by id.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use linchpin::search::Hit;
use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::{StrColumn, TermOrdHit};
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader, TantivyError};

/// The name of the field of ids.
pub(crate) const ID: &str = "id";

/// Collects hits up to a number.
pub(crate) struct TopHits<'a> {
    pub(crate) limit: usize,
    pub(crate) after: Option<&'a Hit>,
}

/// A hit within a segment, where ids are numbered in order. The better hit is greater.
#[derive(Clone, Copy)]
struct Ranked {
    score: Score,
    id: u64,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// Collects the hits of one segment.
pub(crate) struct Segment {
    limit: usize,
    ids: Option<StrColumn>,
    /// Collect only hits below this score, or with this score and at least this id.
    after: Option<(Score, u64)>,
    /// The worst hit is on top.
    best: BinaryHeap<Reverse<Ranked>>,
}

impl Collector for TopHits<'_> {
    type Fruit = Vec<Hit>;
    type Child = Segment;

    fn for_segment(&self, _: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<Segment> {
        let ids = reader.fast_fields().str(ID)?;
        let after = match (self.after, &ids) {
            (Some(after), Some(ids)) => {
                let id = match ids.dictionary().term_ord_or_next(after.id.as_bytes())? {
                    TermOrdHit::Exact(id) => id + 1,
                    TermOrdHit::Next(id) => id,
                };
                // The score came from this index, so the conversion loses nothing.
                Some((after.score as Score, id))
            }
            _ => None,
        };
        Ok(Segment {
            limit: self.limit,
            ids,
            after,
            best: BinaryHeap::new(),
        })
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn merge_fruits(&self, segments: Vec<tantivy::Result<Vec<Hit>>>) -> tantivy::Result<Vec<Hit>> {
        let mut hits = segments
            .into_iter()
            .collect::<tantivy::Result<Vec<_>>>()?
            .concat();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        hits.truncate(self.limit);
        Ok(hits)
    }
}

impl SegmentCollector for Segment {
    type Fruit = tantivy::Result<Vec<Hit>>;

    fn collect(&mut self, doc: DocId, score: Score) {
        let Some(id) = self.ids.as_ref().and_then(|ids| ids.ords().first(doc)) else {
            return;
        };
        let is_after = self
            .after
            .is_none_or(|(last, first_id)| match score.total_cmp(&last) {
                Ordering::Less => true,
                Ordering::Equal => id >= first_id,
                Ordering::Greater => false,
            });
        if !is_after {
            return;
        }
        let ranked = Ranked { score, id };
        if self.best.len() < self.limit {
            self.best.push(Reverse(ranked));
        } else if self
            .best
            .peek()
            .is_some_and(|Reverse(worst)| ranked > *worst)
        {
            self.best.pop();
            self.best.push(Reverse(ranked));
        }
    }

    fn harvest(self) -> Self::Fruit {
        let Some(ids) = self.ids else {
            return Ok(Vec::new());
        };
        let hit = |Reverse(ranked): Reverse<Ranked>| {
            let mut id = String::new();
            if !ids.ord_to_str(ranked.id, &mut id)? {
                return Err(TantivyError::InternalError(
                    "an id is not in its own dictionary".to_owned(),
                ));
            }
            Ok(Hit {
                id,
                score: f64::from(ranked.score),
            })
        };
        self.best.into_iter().map(hit).collect()
    }
}
