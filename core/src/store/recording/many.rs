//! Events about many records: their keys and states, in chunks.

/// The maximum number of keys in one event.
const MAX_KEYS: usize = 500;
/// The maximum number of keys in one event with states. It is smaller, because a consumer may write
/// something for each record, and repeats the whole event after a failure.
const MAX_KEYS_WITH_STATES: usize = 100;
/// The maximum number of bytes of keys and states in one event, unless one record alone has more.
const MAX_BYTES: usize = 64 << 10;

/// The records of one event.
pub(super) struct Chunk<'a> {
    /// The keys.
    pub(super) keys: &'a [String],
    /// An array of the states in the order of the keys, as JSON.
    pub(super) states: Option<Vec<u8>>,
    /// An array of the states before the change, as JSON; null for a record that was not read.
    pub(super) before: Option<Vec<u8>>,
}

/// The state of a record before the change. `before` is sorted by key.
pub(super) fn before_of<'a>(before: &'a [(String, Vec<u8>)], key: &str) -> Option<&'a [u8]> {
    let found = before.binary_search_by(|(known, _)| known.as_str().cmp(key));
    found.ok().map(|at| before[at].1.as_slice())
}

/// Splits the records of a statement. `states` are in the order of `keys`; `before` is sorted by
/// key. There is at least one chunk, which may be empty.
pub(super) fn chunks<'a>(
    keys: &'a [String],
    states: Option<&[Vec<u8>]>,
    before: &[(String, Vec<u8>)],
) -> Vec<Chunk<'a>> {
    let earlier = |at: usize| before_of(before, &keys[at]);
    let bytes = |at: usize| {
        let state = states.map_or(0, |states| states[at].len());
        keys[at].len() + state + earlier(at).map_or(0, <[u8]>::len)
    };
    let most = if states.is_some() {
        MAX_KEYS_WITH_STATES
    } else {
        MAX_KEYS
    };
    let mut all = Vec::new();
    let mut start = 0;
    while start < keys.len() || all.is_empty() {
        let (mut end, mut sum) = (start, 0);
        while end < keys.len() && end - start < most {
            sum += bytes(end);
            if sum > MAX_BYTES && end > start {
                break;
            }
            end += 1;
        }
        let range = start..end;
        all.push(Chunk {
            keys: &keys[range.clone()],
            states: states.map(|states| array(range.clone().map(|at| &*states[at]))),
            before: (states.is_some() && !before.is_empty())
                .then(|| array(range.map(|at| earlier(at).unwrap_or(b"null")))),
        });
        start = end;
    }
    all
}

/// A JSON array of JSON values.
fn array<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = vec![b'['];
    for value in values {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(value);
    }
    out.push(b']');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("k{n:04}")).collect()
    }

    /// The number of keys and the bytes of states of each chunk.
    fn sizes(chunks: &[Chunk<'_>]) -> Vec<(usize, usize)> {
        let bytes = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        let of = |chunk: &Chunk<'_>| (chunk.keys.len(), bytes(&chunk.states));
        chunks.iter().map(of).collect()
    }

    #[test]
    fn chunks_are_limited_in_keys_and_bytes() {
        assert_eq!(sizes(&chunks(&[], None, &[])), [(0, 0)]);
        assert_eq!(sizes(&chunks(&[], Some(&[]), &[])), [(0, 2)]);
        let all = keys(1203);
        let counts: Vec<usize> = chunks(&all, None, &[])
            .iter()
            .map(|c| c.keys.len())
            .collect();
        assert_eq!(counts, [500, 500, 203]);
        let parts = chunks(&all[..203], Some(&vec![vec![b'1']; 203]), &[]);
        assert_eq!(sizes(&parts), [(100, 201), (100, 201), (3, 7)]);
        // 10 states of 20 KB, and one that alone is too large.
        let mut states = vec![vec![b'1'; 20_000]; 10];
        states[4] = vec![b'1'; 100_000];
        let ten = keys(10);
        let parts = chunks(&ten, Some(&states), &[]);
        let counts: Vec<usize> = parts.iter().map(|chunk| chunk.keys.len()).collect();
        assert_eq!(counts, [3, 1, 1, 3, 2]);
        assert!(
            sizes(&parts)
                .iter()
                .all(|(n, bytes)| *n == 1 || *bytes <= MAX_BYTES)
        );
        let again: Vec<String> = parts.iter().flat_map(|chunk| chunk.keys.to_vec()).collect();
        assert_eq!(again, ten);
    }

    #[test]
    fn states_have_the_order_of_the_keys() {
        let two = vec!["b".to_owned(), "a".to_owned()];
        let states = [br#"{"n":2}"#.to_vec(), br#"{"n":1}"#.to_vec()];
        let before = [("b".to_owned(), b"{}".to_vec())];
        let parts = chunks(&two, Some(&states), &before);
        let text = |part: &Option<Vec<u8>>| String::from_utf8(part.clone().unwrap()).unwrap();
        assert_eq!(text(&parts[0].states), r#"[{"n":2},{"n":1}]"#);
        assert_eq!(text(&parts[0].before), "[{},null]");
        // Without states, the earlier states are not needed either.
        assert!(chunks(&two, None, &before)[0].before.is_none());
    }
}
