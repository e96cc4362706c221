//! Reads the header `Accept` of requests for a stream of events.

use linchpin::axum::http::HeaderMap;
use linchpin::axum::http::header::ACCEPT;

/// Whether the headers admit `text/event-stream`: `Accept` is absent or empty, or its most specific
/// range for this type has a weight above zero.
pub fn admits_event_stream(headers: &HeaderMap) -> bool {
    let mut best: Option<(u8, bool)> = None;
    let mut any = false;
    for value in headers.get_all(ACCEPT) {
        // A value that is not ASCII contains no valid media type.
        let Ok(value) = value.to_str() else {
            any = true;
            continue;
        };
        for range in value
            .split(',')
            .map(str::trim)
            .filter(|range| !range.is_empty())
        {
            any = true;
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or("").to_ascii_lowercase();
            let specific = match media.as_str() {
                "text/event-stream" => 3,
                "text/*" => 2,
                "*/*" => 1,
                _ => continue,
            };
            let weight = parts.find_map(|part| {
                let (name, value) = part.split_once('=')?;
                name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
            });
            let admits = weight.is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0));
            // If two ranges are equally specific, the one that admits the type wins.
            if best.is_none_or(|(seen, before)| (specific, admits) > (seen, before)) {
                best = Some((specific, admits));
            }
        }
    }
    !any || best.is_some_and(|(_, admits)| admits)
}

#[cfg(test)]
mod tests {
    use linchpin::axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        let admits = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_str(value).unwrap());
            }
            admits_event_stream(&headers)
        };
        for good in [
            &[][..],
            &[""],
            &["*/*"],
            &["text/event-stream"],
            &["TEXT/Event-Stream; q=0.1"],
            &["text/*;q=0.5, application/json"],
            &["application/json", "text/event-stream"],
            &["*/*;q=0, text/event-stream"],
            &["text/event-stream;charset=utf-8"],
        ] {
            assert!(admits(good), "{good:?}");
        }
        for bad in [
            &["application/json"][..],
            &["text/html, text/plain"],
            &["text/event-stream;q=0"],
            &["*/*, text/event-stream;q=0.0"],
            &["*/*, text/*;q=0"],
            &["text/event-stream;q=x"],
            &["text"],
        ] {
            assert!(!admits(bad), "{bad:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(!admits_event_stream(&headers));
    }
}
