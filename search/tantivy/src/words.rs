//! Splits a search text into words and builds the query. The text is never parsed as a query
//! language.

use std::collections::HashSet;
use std::ops::Bound;

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, InvertedIndexRangeQuery, Occur, Query, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::tokenizer::{
    AsciiFoldingFilter, LowerCaser, RemoveLongFilter, SimpleTokenizer, TextAnalyzer,
};

/// The name of the analyzer in the schema. A changed analyzer needs a new name.
pub(crate) const ANALYZER: &str = "linchpin_words_1";
/// Words of this number of bytes or more are not indexed.
const UNINDEXED_LENGTH: usize = 128;
/// The weight of a prefix match relative to a match of the whole word.
const PREFIX_WEIGHT: f32 = 0.5;

/// The analyzer that splits texts into words.
pub(crate) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(UNINDEXED_LENGTH))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .build()
}

/// The words of a search text.
#[derive(Debug, PartialEq)]
pub(crate) struct Words {
    /// The distinct whole words.
    whole: Vec<String>,
    /// The last word, which may be incomplete; `None` if it is also one of the whole words.
    beginning: Option<String>,
}

/// The words of a search text, in order; `None` if nothing can match.
pub(crate) fn words(text: &str) -> Option<Words> {
    let mut raw = TextAnalyzer::from(SimpleTokenizer::default());
    let mut found = false;
    let mut too_long = false;
    raw.token_stream(text).process(&mut |token| {
        found = true;
        too_long |= token.text.len() >= UNINDEXED_LENGTH;
    });
    // A word that is too long is not indexed, so no record matches. If the word were ignored,
    // records without it would match.
    if too_long || !found {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    analyzer()
        .token_stream(text)
        .process(&mut |token| words.push(token.text.clone()));
    let last = words.pop()?;
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    let beginning = (!seen.contains(&last)).then_some(last);
    Some(Words {
        whole: words,
        beginning,
    })
}

/// Records with every word in one of the fields; the last word may also match as a prefix.
pub(crate) fn query(words: &Words, fields: &[(Field, f32)], owners: Vec<Term>) -> Box<dyn Query> {
    let mut all: Vec<(Occur, Box<dyn Query>)> =
        Vec::with_capacity(words.whole.len() + 1 + owners.len());
    let whole = words.whole.iter().map(|word| (word, false));
    for (word, may_be_prefix) in whole.chain(words.beginning.iter().map(|word| (word, true))) {
        let mut alternatives: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for (field, weight) in fields {
            let whole = TermQuery::new(
                Term::from_field_text(*field, word),
                IndexRecordOption::WithFreqs,
            );
            alternatives.push((
                Occur::Should,
                Box::new(BoostQuery::new(Box::new(whole), *weight)),
            ));
            if may_be_prefix {
                let beginning = ConstScoreQuery::new(
                    Box::new(prefix_query(*field, word)),
                    PREFIX_WEIGHT * weight,
                );
                alternatives.push((Occur::Should, Box::new(beginning)));
            }
        }
        all.push((Occur::Must, Box::new(BooleanQuery::new(alternatives))));
    }
    for owner in owners {
        let owned = TermQuery::new(owner, IndexRecordOption::Basic);
        all.push((
            Occur::Must,
            Box::new(ConstScoreQuery::new(Box::new(owned), 0.0)),
        ));
    }
    Box::new(BooleanQuery::new(all))
}

/// A query for words with this prefix. The upper end of the range is the prefix with the last
/// Unicode character.
fn prefix_query(field: Field, word: &str) -> InvertedIndexRangeQuery {
    let (first, last) = (
        Term::from_field_text(field, word),
        Term::from_field_text(field, &format!("{word}{}", char::MAX)),
    );
    InvertedIndexRangeQuery::new(Bound::Included(first), Bound::Included(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_into_words() {
        let cut = |text| {
            let Words {
                mut whole,
                beginning,
            } = words(text).unwrap_or(Words {
                whole: Vec::new(),
                beginning: None,
            });
            whole.extend(beginning.map(|word| format!("{word}…")));
            whole
        };
        assert_eq!(
            cut("Crème Brûlée, CAFÉ-au-lait!"),
            ["creme", "brulee", "cafe", "au", "lait…"]
        );
        assert_eq!(cut("Straße ΟΔΟΣ 2nd"), ["strasse", "οδοσ", "2nd…"]);
        assert_eq!(cut("a b a c"), ["a", "b", "c…"], "each once");
        assert_eq!(
            cut("a b a"),
            ["a", "b"],
            "the last word is also a whole word"
        );
        assert_eq!(
            cut("title:x AND NOT \"y z\"~3^9 [a TO b] *"),
            [
                "title", "x", "and", "not", "y", "z", "3", "9", "a", "to", "b…"
            ]
        );
        assert_eq!(words("%% -- \"\" ()"), None);
        assert_eq!(
            words(&format!("a {} b", "x".repeat(128))),
            None,
            "a word of 128 bytes is not indexed"
        );
        assert!(words(&format!("a {} b", "x".repeat(127))).is_some());
    }
}
